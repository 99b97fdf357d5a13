import Common
import Crypto

extension VerifierEngine {
  /// Input of the engine, except writes: see `VerifierEngine.write`.
  public enum Event: Sendable {
    /// A local program starts the verifier.
    case start
    /// A program stops the verifier; transfers in progress end.
    case stop
    /// The capacity that the service has left for further credentials has changed.
    case room(Room)
    /// A link came up at the time that is given. The time may lie in the past: a radio may report a link only when its
    /// peer first writes, reads or subscribes. A peer is distrusted if another of its sessions failed recently: no
    /// other wallet loses its link or its slot to such a peer.
    case linkOpened(LinkID, at: Instant, isDistrusted: Bool = false)
    /// The ATT MTU of a link was negotiated; the default of 23 is not reported.
    case linkChanged(LinkID, mtu: Int)
    /// The link of a wallet has ended.
    case linkClosed(LinkID)
    /// Result of decrypting a frame, which `Action.unseal` requested.
    case unsealed(LinkID, Result<[UInt8], TuvaliError>)
    /// The credential of `Action.deliver` is stored or, with an error, could not be stored. A provisional credential is
    /// stored only while its wallet waits: the wallet receives SUCCESS with the verdict, or an error if there is none.
    case kept(LinkID, TuvaliError?, isProvisional: Bool = false)
    /// A local program has judged the credential.
    case decided(LinkID, accepted: Bool)
    /// A local program requests that this wallet is disconnected.
    case dismissed(LinkID)
    /// The time of `deadline` was reached.
    case timer
  }

  /// Answer of the verifier to a wallet's write request.
  public enum WriteAnswer: Hashable, Sendable {
    case accepted
    case refused(Refusal)
  }

  /// Output of the engine, to be performed in order. The meaning of an action does not depend on its position.
  public enum Action: Sendable {
    /// Advertise this invitation, in place of the previous one.
    case advertise(Invitation)
    case stopAdvertising
    /// Send a value to the wallet of a link.
    case notify(LinkID, Characteristic, Dialect, [UInt8])
    /// Cut the link of a wallet at once.
    case cut(LinkID)
    /// Decrypt a frame, and report `Event.unsealed`.
    case unseal(LinkID, Unsealing)
    /// Store a credential, and report `Event.kept`.
    case deliver(LinkID, [UInt8])
    /// Notify the programs that observe the transfer.
    case tell(LinkID, Notice)
  }

  /// Notification of a transfer: the events of the original library, and endings that the library does not report.
  public enum Notice: Sendable, Equatable {
    /// A wallet has sent Identify, and the keys are derived: `SecureChannelEstablished` of the original library.
    case secured(Dialect)
    /// The wallet has announced the size of the frame.
    case announced
    /// The credential is complete, decrypted and stored: `DataReceived` of the original library.
    case received
    /// The verdict was sent to the wallet.
    case statusSent(accepted: Bool)
    /// The transfer has failed, and the verifier is ending the link: `ErrorEvent` of the original library.
    case failed(TuvaliError)
    /// A wallet was refused. No further event is reported for its link.
    case refused(Refusal)
    /// A peer connected and did not identify itself in time. No further event is reported for its link.
    case silent
    /// The session has ended, or the link never had one. No further event is reported for the link.
    case ended
  }

  /// Reason why a wallet was refused.
  public enum Refusal: String, Sendable, CaseIterable {
    /// The wallet used a code that is no longer shown.
    case wrongCode
    /// All slots or links are used by wallets that may not be evicted.
    case busy
    /// There is no capacity for one more credential.
    case full
  }

  /// Figures of a session's progress, for the transfer on D-Bus.
  public struct Progress: Hashable, Sendable {
    /// The ATT MTU of the wallet's link.
    public var mtu: Int
    /// Length of the encrypted frame, in bytes; 0 before the wallet announces it.
    public var bytesExpected = 0
    /// Received bytes of the encrypted frame.
    public var bytesReceived = 0
    /// Number of chunks of the frame.
    public var chunksExpected = 0
    /// Number of the frame's chunks that have not arrived.
    public var chunksMissing = 0
    /// Number of this session's chunks with a wrong checksum.
    public var crcFailures = 0

    public init(mtu: Int) {
      self.mtu = mtu
    }
  }

  /// Event counters since the start of the engine.
  public struct Counters: Hashable, Sendable {
    /// Wallets that sent Identify and got a session.
    public var visits = 0
    /// Credentials that were decrypted and stored.
    public var received = 0
    /// Transfers that failed for any reason.
    public var failed = 0
    /// Wallets that were refused because no slot was free, and links beyond the limit of waiting links.
    public var refused = 0
    /// Chunks that were received while one was expected, valid or not.
    public var chunks = 0
    /// Chunks whose checksum does not match their payload.
    public var crcFailures = 0
    /// Chunks that had been received before.
    public var duplicateChunks = 0
    /// Chunks with a wrong length or number.
    public var badChunks = 0
    /// Writes that were ignored, because they were malformed or came at a wrong time.
    public var ignoredWrites = 0
    /// Links whose peers did not identify themselves in time.
    public var silentLinks = 0
    /// Transfers that failed because a size exceeded a limit, or there was no capacity for the credential.
    public var failedByLimit = 0
    /// Sessions that ended because another wallet needed their slot or their link.
    public var evictedSessions = 0
    /// Wallets that announced a credential for which there was no capacity.
    public var noRoom = 0
    /// Transfers that failed because of a time limit.
    public var failedByTime = 0

    mutating func fail(for reason: TuvaliError.Reason) {
      failed += 1
      if reason == .limitExceeded || reason == .noCapacity { failedByLimit += 1 }
      if reason == .timeout { failedByTime += 1 }
    }
  }

  /// Time limits and other limits of a verifier.
  public struct Configuration: Sendable {
    /// Advertised name, at most 14 bytes of UTF-8.
    public var name: String
    /// Maximum credential, in bytes of its text.
    public var credentialLimit = 4 << 20
    /// Time from a report request to the report: the Android wallet listens only after its request was sent.
    public var reportDelay = Duration.milliseconds(40)
    /// Maximum time from the event that reports a link to the wallet's Identify.
    public var identifyTimeout = Duration.seconds(10)
    /// Maximum time from Identify to the first size, in which a person chooses a card or takes a photo.
    public var announceTimeout = Duration.seconds(300)
    /// Number of session slots. A wallet holds one from its first size to the verdict.
    public var visitors = 4
    /// Maximum time without progress, which is the first size or a new chunk. It also limits the decryption, and the
    /// storing of the credential.
    public var idleTimeout = Duration.seconds(60)
    /// Maximum time from the first size to the report on a complete frame; see `wholeTime`.
    public var transferTimeout = Duration.seconds(900)
    /// Time from the last write of a wallet whose frame is complete to an unrequested report.
    public var quietTime = Duration.seconds(2)
    /// Maximum time from the arrival of the credential to the verdict.
    public var decisionTimeout = Duration.seconds(30)
    /// Time from the verification status to the Disconnect message. The wallet should disconnect before.
    public var disconnectTimeout = Duration.seconds(2)
    /// Time from the Disconnect message to the cut of the link.
    public var closeGuard = Duration.milliseconds(500)
    /// Time from a refusal to the cut of the link, in which the answer reaches the wallet.
    public var answerTime = Duration.milliseconds(100)
    /// Maximum links that wait for Identify, within the limit `links`.
    public var waitingLinks = 8
    /// Maximum number of links of sessions and of waiting wallets together. One link may always wait.
    public var links = Int.max
    /// Time for which a waiting link is not cut in favour of another one.
    public var arrivalTime = Duration.seconds(4)
    /// Time after its Identify in which a wallet that has announced no size is not disconnected, even if another
    /// wallet needs one.
    public var idleSafety = Duration.seconds(2)
    /// Minimum time between two Identify writes that begin transfers on the same link.
    var identifyPause = Duration.seconds(2)
    /// The limits within which a session does not lose its slot.
    var patience = SessionHealth.Patience()

    public init(name: String) {
      self.name = name
    }

    /// Maximum time for a frame from the first size: a minute, plus a second per 1000 bytes.
    func wholeTime(for size: Int) -> Duration { .seconds(60) + .milliseconds(size) }
  }
}
