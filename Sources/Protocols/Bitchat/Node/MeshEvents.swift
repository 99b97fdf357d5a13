import BitchatWire
import Common
import Crypto

extension MeshEngine {
  public typealias Action = MeshAction
  public typealias Counters = NodeCounters
  public typealias CutReason = Bitchat.CutReason
  public typealias Keepsake = Bitchat.Keepsake
  public typealias PeerTrouble = Bitchat.PeerTrouble
  public typealias PingError = Bitchat.PingError
  public typealias ProofOutcome = Bitchat.ProofOutcome
  public typealias ChallengeError = Bitchat.ChallengeError
  public typealias State = NodeState

  /// Input of the engine.
  public enum Event: Sendable {
    case start
    /// The node leaves the mesh and sends a leave.
    case stop
    /// Whether this machine's clock is known to be right: later than the build date, and synchronised.
    case clock(isTrusted: Bool)
    /// This machine's clock was set: earlier comparisons with neighbours' clocks are void.
    case clockSet
    /// A link to a peer that takes part in the mesh is up.
    ///
    /// - Parameters:
    ///   - frameLimit: maximum length of one write or notification, in bytes.
    ///   - isOurs: whether this node initiated the link.
    ///   - from: device at the other end; nil if unknown. Limits are shared among devices.
    case linkOpened(LinkID, frameLimit: Int, isOurs: Bool, from: DeviceOrigin? = nil)
    case linkChanged(LinkID, frameLimit: Int)
    case linkClosed(LinkID)
    /// One received write or notification.
    case received([UInt8], on: LinkID)
    /// Requests an immediate announce.
    case announce
    /// The service has stored a private message or notice. The sender gets an acknowledgement.
    case kept(MessageID, from: PeerID)
    /// The service has no capacity for a private message or notice. It is reported again when the sender repeats it.
    case notTaken(MessageID, from: PeerID)
    /// The user has read a private message.
    case read(MessageID, from: PeerID)
    case favourite(PeerID, Bool)
    /// Blocks or unblocks a peer. Messages of a blocked peer are not reported, and its private ones are neither
    /// accepted nor answered. It remains a peer: its announces and links count, and `Action.peer` and `Action.bound`
    /// name it.
    case block(PeerID, Bool)
    /// The user has verified the peer's fingerprint, or revokes that. The fingerprint covers the Noise key only. A peer
    /// that has not proven its signing key is therefore asked to: `Action.proof`.
    case verified(PeerID, Bool)
    /// Removes a peer and its pinned key.
    case forget(PeerID)
    /// The service has stored a private file. The sender gets an acknowledgement. Before that, each copy is reported.
    case fileKept(MessageID, from: PeerID)
    /// Cancels a file of this node. No fragment of it is sent afterwards.
    case cancelFile(UInt32)
    /// A different service needs the radio, or no longer does. Meanwhile no file is sent or requested.
    case quiet(Bool)
    /// A link has sent packets of files; `waiting` packets are still queued.
    case room(LinkID, waiting: Int)
    /// The time of `deadline` has come.
    case timer
  }

  /// Settings of the node.
  public struct Configuration: Hashable, Sendable {
    public var nickname: String
    public var role = NodeRole.node
    public var relayPolicy = RelayPolicy.mains
    /// Maximum TTL of relayed encrypted packets; nil for no limit.
    public var encryptedRelayLimit: UInt8?
    /// Whether packets are padded where possible.
    public var padsAll = false
    /// Whether packets of blocked peers are not relayed. Their announces are handled, so that their links have a peer.
    public var blocksRelay = false
    /// Whether links are cut after 60 s without a packet, as in the document of 2025.
    public var isMonitorStrict = false
    /// Preferred dialect. Dialect S is used with peers that announce it.
    public var dialect = MeshDialect.live
    /// Peers with a configured dialect, whatever they announce.
    public var dialects: [PeerID: MeshDialect] = [:]
    /// Maximum envelopes carried for others, fixed at the start; none for a relay.
    public var carries = CourierBag.usualLimit
    /// Whether the node runs on battery: it announces itself once a minute.
    public var isSparing = false
    /// Longest value, in bytes, that arrives when a neighbour writes it to this node; nil without a limit.
    public var longestWrite: UInt16?

    public init(nickname: String) {
      self.nickname = nickname
    }
  }
}

extension MeshEngine.Configuration {
  /// Settings that decide about dialects.
  var translation: Translator.Settings {
    Translator.Settings(nickname: nickname, preferred: dialect, chosen: dialects)
  }
}
