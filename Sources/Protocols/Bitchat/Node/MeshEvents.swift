import BitchatWire
import Common
import Crypto

extension MeshEngine {
  public typealias Action = MeshAction
  public typealias Counters = NodeCounters
  public typealias CutReason = Bitchat.CutReason
  public typealias PersistedItem = Bitchat.PersistedItem
  public typealias PeerTrouble = Bitchat.PeerTrouble
  public typealias PingError = Bitchat.PingError
  public typealias ProofOutcome = Bitchat.ProofOutcome
  public typealias ChallengeError = Bitchat.ChallengeError
  public typealias State = NodeState

  /// Input of the engine: what has happened at the links, or what the user requests.
  public enum Event: Sendable {
    case start
    /// The node leaves the mesh and sends a leave.
    case stop
    /// Whether this machine's clock is trusted: it is later than the build date, and synchronised.
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
    /// One value that the peer of a link has written or notified.
    case received([UInt8], on: LinkID)
    /// The user requests an announce at once.
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
    /// The user has verified the peer's fingerprint, or has revoked the verification. The fingerprint covers the Noise
    /// key only. A peer that has not proven its signing key is therefore asked for a proof: `Action.proof`.
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
    /// A program carries packets for peers without a path in the mesh.
    ///
    /// - Parameter key: this node's key for the uplink, as text. Favourites get it with the next notice.
    case uplinkOpened(key: String)
    case uplinkClosed
    /// The uplink program has stored a packet.
    case uplinkTaken(UplinkPacket.ID)
    /// The uplink program cannot store a packet.
    case uplinkRefused(UplinkPacket.ID)
    /// The time of `deadline` was reached.
    case timer
  }

  /// Settings of the node that the engine obeys.
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
    public var carries = CourierStore.usualLimit
    /// Whether the node runs on battery: it announces itself once a minute.
    public var isSparing = false
    /// Whether payloads for the uplink are sealed for the recipient's Noise key. The apps cannot read them then.
    public var sealsUplink = false
    /// Longest value, in bytes, that arrives when a neighbour writes it to this node; nil without a limit.
    public var longestWrite: UInt16?

    public init(nickname: String) {
      self.nickname = nickname
    }
  }

  /// Keys and peer ID of a node.
  public struct Identity: Sendable {
    public let noiseKey: X25519.PrivateKey
    public let signingKey: Ed25519.PrivateKey
    public let id: PeerID

    public init(noiseKey: X25519.PrivateKey, signingKey: Ed25519.PrivateKey) {
      self.noiseKey = noiseKey
      self.signingKey = signingKey
      id = PeerID(noiseKey: noiseKey.publicKey)
    }

    /// Generates new keys, and thereby a new peer ID.
    public init(randomFrom source: inout some RandomSource) {
      self.init(
        noiseKey: X25519.PrivateKey(randomFrom: &source), signingKey: Ed25519.PrivateKey(randomFrom: &source))
    }
  }

  /// Time, actions and state of one call.
  struct Turn {
    let now: Instant
    /// Current time, in milliseconds since 1970.
    let time: UInt64
    var actions: [Action] = []
    /// ID of the fragments from which the current packet was assembled; nil for other packets.
    var completing: FragmentSetID?
    /// Whether the event had no effect on deadlines and caused no actions.
    var isIdle = false
  }

  /// Amounts of stored items that grow with the network and have a limit.
  public struct Holdings: Hashable, Sendable {
    public var peers = 0
    public var pins = 0
    public var announces = 0
    public var messages = 0
    /// Fragments that are stored for sync answers.
    public var fragments = 0
    /// Bytes of announces, messages and fragments stored for sync.
    public var archiveBytes = 0
    /// Keys of recently received packets, by which copies are recognised.
    public var recentPackets = 0
    /// Packets that wait to be relayed.
    public var pendingRelays = 0
    /// Bytes of the packets that wait to be relayed.
    public var pendingBytes = 0
    /// Packets of which some fragments are missing.
    public var assemblies = 0
    /// Memory that the fragments of these packets use, in bytes.
    public var assemblyBytes = 0
    /// Public messages of senders that have not announced themselves.
    public var waitingChat = 0
    /// Frames that wait for paced sending.
    public var pacedFrames = 0

    public init() {}
  }
}

extension MeshEngine.Configuration {
  /// Those of these settings that decide in which dialect packets are sent.
  var translation: Translator.Settings {
    Translator.Settings(nickname: nickname, preferred: dialect, chosen: dialects)
  }
}
