import Common
import Crypto

extension VerifierEngine {
  /// What happens to the verifier, but for writes: `VerifierEngine.write` takes those.
  public enum Event: Sendable {
    /// A program wants the verifier to wait for a wallet.
    case start
    /// A program wants the verifier to end what is under way, and to wait no longer.
    case stop
    /// So much can be kept of what wallets bring, from now on; what is kept already is not in it.
    case room(Room)
    /// A link came up at the time that is given. The time may lie in the past: a radio may report a link only when its
    /// peer first writes, reads or subscribes. A peer is distrusted if another of its sessions failed recently: no
    /// other wallet loses its link or its slot to such a peer.
    case linkOpened(LinkID, at: Instant, isDistrusted: Bool = false)
    /// The ATT MTU of a link was agreed on; the 23 that holds before is not reported.
    case linkChanged(LinkID, mtu: Int)
    /// A link has ended.
    case linkClosed(LinkID)
    /// `Action.unseal` was carried out.
    case unsealed(LinkID, Result<[UInt8], TuvaliError>)
    /// The credential of `Action.deliver` is stored or, with an error, could not be stored. A provisional credential is
    /// stored only while its wallet waits: the wallet receives SUCCESS with the verdict, or an error if there is none.
    case kept(LinkID, TuvaliError?, isProvisional: Bool = false)
    /// A local program has judged the credential.
    case decided(LinkID, accepted: Bool)
    /// A local program wants this wallet to leave.
    case dismissed(LinkID)
    /// `deadline` has come.
    case timer
  }

  /// What a write is answered with, if it is a request.
  public enum WriteAnswer: Hashable, Sendable {
    case accepted
    case refused(Refusal)
  }

  /// What is to be done, in this order. Each action means the same wherever it stands.
  public enum Action: Sendable {
    /// Puts this invitation on the air, in place of the one before.
    case advertise(Invitation)
    case stopAdvertising
    /// Sends a value to the wallet of a link.
    case notify(LinkID, Characteristic, Dialect, [UInt8])
    /// Ends a link at once.
    case cut(LinkID)
    /// Decrypts a frame, and reports `Event.unsealed`.
    case unseal(LinkID, Unsealing)
    /// Stores a credential, and reports `Event.kept`.
    case deliver(LinkID, [UInt8])
    /// Tells the programs that watch the transfer.
    case tell(LinkID, Notice)
  }

  /// What happened in a transfer: the originals' events, and the ends that the originals do not report.
  public enum Notice: Sendable, Equatable {
    /// A wallet identified itself and the keys are derived: SecureChannelEstablished.
    case secured(Dialect)
    /// The wallet has announced the size of the frame.
    case announced
    /// The whole credential is decrypted and stored: DataReceived.
    case received
    /// The verdict was sent to the wallet.
    case statusSent(accepted: Bool)
    /// The transfer has failed, and the link is being ended: ErrorEvent.
    case failed(TuvaliError)
    /// A wallet was refused. No further notice comes for its link.
    case refused(Refusal)
    /// A peer connected and did not identify itself in time. No further notice comes for its link.
    case silent
    /// The visit is over, or the link never had one. No further notice comes for this link.
    case ended
  }

  /// Why a wallet was refused.
  public enum Refusal: String, Sendable, CaseIterable {
    /// The wallet used a code that is no longer shown.
    case wrongCode
    /// Every slot or link is in use by a wallet that keeps it.
    case busy
    /// There is no capacity for one more credential.
    case full
  }

  /// The figures of a visit.
  public struct Progress: Hashable, Sendable {
    /// The ATT MTU.
    public var mtu: Int
    /// Bytes of the encrypted frame; 0 before the wallet announces them.
    public var bytesExpected = 0
    /// Bytes of the encrypted frame that are here.
    public var bytesReceived = 0
    /// Chunks of the whole frame.
    public var chunksExpected = 0
    /// Chunks that are not here yet.
    public var chunksMissing = 0
    /// Chunks of this visit that were dropped for their checksum.
    public var crcFailures = 0

    public init(mtu: Int) {
      self.mtu = mtu
    }
  }

  /// How often each thing happened since the engine was made.
  public struct Counters: Hashable, Sendable {
    /// Wallets that identified themselves and were served.
    public var visits = 0
    /// Credentials that were decrypted and stored.
    public var received = 0
    /// Transfers that failed, for whatever reason.
    public var failed = 0
    /// Wallets that were refused for lack of a slot, and links over the limit of those that wait to be identified.
    public var refused = 0
    /// Chunks that were looked at, good or bad.
    public var chunks = 0
    /// Chunks that were dropped for their checksum.
    public var crcFailures = 0
    /// Chunks that had come before.
    public var duplicateChunks = 0
    /// Chunks that were dropped for their length or their number.
    public var badChunks = 0
    /// Writes that had no effect.
    public var ignoredWrites = 0
    /// Links whose peers did not identify themselves in time.
    public var silentLinks = 0
    /// Transfers that failed because a size exceeded a limit, or because there was no room for the credential.
    public var failedByLimit = 0
    /// Sessions that ended because another wallet needed their slot or their link.
    public var gaveWay = 0
    /// Wallets that announced a credential for which there was no room.
    public var noRoom = 0
    /// Transfers that failed because time ran out.
    public var failedByTime = 0

    mutating func fail(for reason: TuvaliError.Reason) {
      failed += 1
      if reason == .limitExceeded || reason == .noCapacity { failedByLimit += 1 }
      if reason == .timeout { failedByTime += 1 }
    }
  }

  /// The times and limits that a verifier keeps.
  public struct Configuration: Sendable {
    /// The name on the air, at most 14 bytes of UTF-8.
    public var name: String
    /// The largest credential, in bytes of its text.
    public var credentialLimit = 4 << 20
    /// From a report request to the report: the Android wallet listens only after its request has left.
    public var reportDelay = Duration.milliseconds(40)
    /// From the event that reports a link to the wallet's Identify.
    public var identifyTimeout = Duration.seconds(10)
    /// Time from Identify to the first size, in which a person chooses a card or takes a photo.
    public var announceTimeout = Duration.seconds(300)
    /// Number of session slots. A wallet holds one from its first size to the verdict.
    public var visitors = 4
    /// From one sign of progress to the next: the first size, a new chunk. Also for decrypting and storing the credential.
    public var idleTimeout = Duration.seconds(60)
    /// From the first size to the report on a complete frame, however large it is; see `wholeTime`.
    public var visitTimeout = Duration.seconds(900)
    /// From the last write of a wallet whose frame is complete to the report for which it did not ask.
    public var quietTime = Duration.seconds(2)
    /// From the credential's arrival to the local program's verdict.
    public var decisionTimeout = Duration.seconds(30)
    /// From the verification status to the Disconnect message. The wallet should leave by itself before.
    public var leaveTimeout = Duration.seconds(2)
    /// From the Disconnect message to the cut of the link.
    public var closeGuard = Duration.milliseconds(500)
    /// From the answer that turns a wallet down to the cut of its link: the answer needs time to reach the wallet.
    public var answerTime = Duration.milliseconds(100)
    /// Links that may wait for their wallets to identify themselves, as long as `links` leaves so many.
    public var waitingLinks = 8
    /// Maximum number of links of sessions and of waiting wallets together. One link may always wait.
    public var links = Int.max
    /// How long such a link is safe from making room for another one.
    public var arrivalTime = Duration.seconds(4)
    /// Time after its Identify for which a silent wallet keeps its link although another wallet needs one.
    public var idleSafety = Duration.seconds(2)
    /// Minimum time between two Identify writes that begin transfers on the same link.
    var identifyPause = Duration.seconds(2)
    /// The limits within which a session keeps its slot.
    var patience = Standing.Patience()

    public init(name: String) {
      self.name = name
    }

    /// How long a wallet has for its frame, from the first size on: a minute, and a second for each 1000 bytes.
    func wholeTime(for size: Int) -> Duration { .seconds(60) + .milliseconds(size) }
  }
}
