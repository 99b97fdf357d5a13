import Common
import Crypto

extension VerifierEngine {
  /// What the engine is told.
  public enum Event: Sendable {
    /// Begin to wait for a wallet, with a fresh key.
    case start
    /// End what is under way and wait no longer.
    case stop
    case linkOpened(LinkID)
    /// The ATT MTU of a link was agreed on; the 23 before that is none.
    case linkChanged(LinkID, mtu: Int)
    case linkClosed(LinkID)
    /// A wallet wrote to a characteristic of the service of one of our dialects.
    case written(LinkID, Characteristic, Dialect, [UInt8])
    /// `Action.unseal` was carried out.
    case unsealed(LinkID, Result<[UInt8], TuvaliError>)
    /// What `Action.deliver` handed over is in safe hands, or could not be kept.
    case kept(LinkID, TuvaliError?)
    /// The local program's verdict, for the wallet to see.
    case decided(LinkID, accepted: Bool)
    /// The local program wants this wallet gone.
    case dismissed(LinkID)
    /// `deadline` has come.
    case timer
  }

  /// What the engine wants done, in this order.
  public enum Action: Sendable {
    /// Put this on the air, in place of what was there.
    case advertise(Invitation)
    case stopAdvertising
    case notify(LinkID, Characteristic, Dialect, [UInt8])
    /// Answer the write that is being handled with an error.
    case refuse
    case cut(LinkID)
    case unseal(LinkID, Unsealing)
    case deliver(LinkID, [UInt8])
    case tell(LinkID, Notice)
  }

  /// What happened in a transfer, for those who watch it: the originals' events, and the ends they are silent about.
  public enum Notice: Sendable, Equatable {
    /// A wallet identified itself and the keys are derived: SecureChannelEstablished.
    case secured(Dialect)
    /// The frame's size is known.
    case announced
    /// The whole credential is here, decrypted: DataReceived.
    case received
    /// The wallet has been told the verdict.
    case statusSent(accepted: Bool)
    /// ErrorEvent: the transfer has failed, and the link is being ended.
    case failed(TuvaliError)
    /// A wallet came while another was served, or had connected before the present key was on the air. Nothing more
    /// comes for its link.
    case refused
    /// It connected and did not say who it is in time. Nothing more comes for its link.
    case silent
    /// The visit is over, or was none: nothing more comes for this link.
    case ended
  }

  /// The figures of the visit under way.
  public struct Progress: Hashable, Sendable {
    public var mtu: Int
    /// Bytes of the encrypted frame; 0 before they are announced.
    public var bytesExpected = 0
    public var bytesReceived = 0
    public var chunksExpected = 0
    public var chunksMissing = 0
    public var crcFailures = 0

    public init(mtu: Int) {
      self.mtu = mtu
    }
  }

  /// How often each thing happened since the engine was made.
  public struct Counters: Hashable, Sendable {
    public var visits = 0
    public var received = 0
    public var failed = 0
    public var refused = 0
    public var chunks = 0
    public var crcFailures = 0
    public var duplicateChunks = 0
    public var badChunks = 0
    public var ignoredWrites = 0
    public var silentLinks = 0
    /// Of those that failed: what was announced, sent or inflated exceeded a limit, or there was no room to keep it.
    public var failedByLimit = 0
    /// Of those that failed: time ran out.
    public var failedByTime = 0

    mutating func fail(for reason: TuvaliError.Reason) {
      failed += 1
      if reason == .limitExceeded { failedByLimit += 1 }
      if reason == .timeout { failedByTime += 1 }
    }
  }

  public struct Configuration: Sendable {
    /// The name on the air, at most 14 bytes of UTF-8.
    public var name: String
    /// Largest credential, in bytes of its text.
    public var credentialLimit = 4 << 20
    /// A report goes out this long after it was asked for: the Android wallet listens only after its request has left.
    public var reportDelay = Duration.milliseconds(40)
    /// From the connection to Identify.
    public var identifyTimeout = Duration.seconds(10)
    /// Without a sign of the wallet; and for decrypting and keeping the credential.
    public var idleTimeout = Duration.seconds(60)
    /// From Identify to the report on a complete frame, however lively the wallet is.
    public var visitTimeout = Duration.seconds(900)
    /// From the credential's arrival to the local program's verdict.
    public var decisionTimeout = Duration.seconds(30)
    /// From the verification status to the Disconnect message, for the wallet to leave by itself.
    public var leaveTimeout = Duration.seconds(2)
    /// From the Disconnect message to the link being cut.
    public var closeGuard = Duration.milliseconds(500)
    /// Wallets that are connected and have not said who they are.
    public var waitingLinks = 8

    public init(name: String) {
      self.name = name
    }
  }
}
