import Bitchat
import BitchatWire
import Common
import Config
import Hosting
import MeshNaming
import MeshStore

/// Settings of section `[Mesh]`. The engine defines the defaults of its own settings.
public struct MeshSettings: SettingsSection {
  /// Power source of the node. On mains it scans continuously, on battery a fifteenth of the time.
  public enum Power: String, Sendable, CaseIterable {
    case mains
    case battery
  }

  /// Idle timeout after which the link of a silent neighbour is cut (`DeviceMonitor=`).
  public enum Monitor: String, Sendable, CaseIterable {
    case standard = "default"
    case strict
  }

  public var enabled = false
  public var nickname = "earshot"
  /// Role of the node for peers and local programs.
  public var role = NodeRole.node
  public var relayPolicy = RelayPolicy.mains
  /// Time for which public messages are stored on disk; zero stores them in memory only.
  public var archive = Duration.seconds(6 * 3600)
  /// Maximum bytes of stored received files.
  public var fileStore = 64 << 20
  /// Time for which received files are stored.
  public var filesFor = Duration.seconds(7 * 24 * 3600)
  /// Maximum number of neighbours that have a link with this node.
  public var links = 7
  public var monitor = Monitor.standard
  /// Maximum envelopes that a mailbox carries.
  public var courierEnvelopes = 1000
  public var power = Power.mains
  /// Maximum TTL of relayed encrypted packets; 0 for no limit.
  public var encryptedRelayLimit = 0
  public var padsAll = false
  public var blocksRelay = false
  public var trustsClock = false
  /// Whether payloads for the uplink are sealed with Noise.
  public var sealsUplink = false
  /// Preferred dialect for all peers without an entry in `dialects`.
  public var dialect = MeshDialect.live
  /// Peers to which this node sends a configured dialect, whatever they announce.
  public var dialects: [PeerDialect] = []
  /// Journal entries per kind of event and minute, from section `[Log]`.
  public var linesPerPeer = LogSettings().linesPerPeer

  /// A peer, and the dialect that the configuration sets for it.
  public struct PeerDialect: Hashable, Sendable {
    public let peer: PeerID
    public let dialect: MeshDialect

    public init(peer: PeerID, dialect: MeshDialect) {
      (self.peer, self.dialect) = (peer, dialect)
    }

    /// Parses a peer ID or a fingerprint, a colon and a dialect; nil for other text.
    init?(_ word: String) {
      let parts = word.split(separator: ":", omittingEmptySubsequences: false)
      guard parts.count == 2, let dialect = MeshDialect(rawValue: String(parts[1])) else { return nil }
      guard let peer = (try? PeerID(text: parts[0])) ?? (try? Fingerprint(text: parts[0]))?.peerID else { return nil }
      self.init(peer: peer, dialect: dialect)
    }

    var word: String { "\(peer):\(dialect.rawValue)" }
  }

  public init() {}

  /// Advertising interval of the node, which depends on the power source.
  var advertisingInterval: Duration { power == .battery ? .seconds(1) : .milliseconds(200) }

  /// Reads the settings of the mesh from a configuration.
  public init(_ configuration: Configuration) {
    self = configuration[MeshSettings.self]
    linesPerPeer = configuration[LogSettings.self].linesPerPeer
    // One link of the adapter stays free for a client of another service.
    links = min(links, max(1, configuration[RadioSettings.self].links - 1))
  }

  /// Those of these settings that the mesh store needs.
  var kept: NodeStore.Settings {
    var kept = NodeStore.Settings(archive: archive)
    (kept.fileBytes, kept.filesFor) = (fileStore, filesFor)
    return kept
  }

  func engine(nickname: String) -> MeshEngine.Configuration {
    var configuration = MeshEngine.Configuration(nickname: nickname)
    configuration.role = role
    configuration.relayPolicy = relayPolicy
    configuration.encryptedRelayLimit = encryptedRelayLimit == 0 ? nil : UInt8(encryptedRelayLimit)
    configuration.padsAll = padsAll
    configuration.blocksRelay = blocksRelay
    configuration.sealsUplink = sealsUplink
    if let limit = role.configuredEnvelopes(ofMailbox: courierEnvelopes) { configuration.carries = limit }
    configuration.isSparing = power == .battery
    configuration.isMonitorStrict = monitor == .strict
    configuration.dialect = dialect
    configuration.dialects = Dictionary(dialects.map { ($0.peer, $0.dialect) }) { $1 }
    return configuration
  }
}

extension MeshSettings {
  public static let section = "Mesh"

  /// Maximum memory in bytes. In MiB: log 20, archive 6, queues of links 12, reassembly 8, outgoing texts with the
  /// overhead of their fragments 24. Received files waiting for the disk 8, outgoing files 16, files opened by programs
  /// 32.
  public var memory: Int { enabled ? (126 << 20) + role.courierBytes : 0 }

  /// Maximum length of a nickname, in bytes; the apps show no more.
  static let nicknameBytes = 60

  /// Maximum peers with a configured dialect.
  private static let dialectLimit = 64

  private static let dialectsKind = ValueKind<[PeerDialect]>.words(
    "one or more words like 0123456789abcdef:seed or 0123456789abcdef:live", upTo: dialectLimit, key: \.peer,
    show: \.word, parse: { PeerDialect($0) })

  public static let keys: [Setting<MeshSettings>] = [
    Setting("Enabled", \.enabled, .bool, .onRestart, "Whether this machine is a node of the Bitchat mesh."),
    Setting(
      "Nickname", \.nickname,
      .text(upTo: nicknameBytes).refusing { NicknameText.isUsable($0) ? nil : "it cannot be shown on one line" },
      .onReload,
      "Nickname of the node, sent unencrypted to everybody in range. A nickname that was set over D-Bus takes "
        + "precedence."),
    Setting(
      "Role", \.role, .choice, .onRestart,
      "node takes part in everything. relay relays packets of others, stores none, answers no private message and "
        + "sends nothing about itself beyond what an announce requires. mailbox is a node that carries many courier "
        + "envelopes for absent peers."
    ),
    Setting(
      "RelayPolicy", \.relayPolicy, .choice, .onReload,
      "Which packets of others the node relays. mains: all, to every neighbour that has not received them, for a "
        + "machine on mains power. apps: those that the apps relay. off: none."),
    Setting(
      "Archive", \.archive, .duration(.zero ... .seconds(6 * 3600)), .onReload,
      "How long public messages are stored on disk, so that they survive a restart. 0s stores them in memory only."
    ),
    Setting(
      "FileStore", \.fileStore, .size((1 << 20)...(1 << 30)), .onReload,
      "Maximum total size of received files, which are encrypted in the state directory. To stay below it, the node "
        + "removes public files first, then private ones, and those of favourite and verified peers last.",
      erasesLeast: 1 << 30),
    Setting(
      "FilesFor", \.filesFor, .duration(.seconds(60)...(.seconds(365 * 24 * 3600))), .onReload,
      "How long received files are stored.", erasesLeast: .seconds(365 * 24 * 3600)),
    Setting(
      "Peers", \.links, .number(1...64), .onReload,
      "Maximum number of neighbours with a link to the node. One link of [Radio] Links= always stays free."),
    Setting(
      "CourierEnvelopes", \.courierEnvelopes, .number(0...1000), .onRestart,
      "Maximum number of courier envelopes that a mailbox carries, each for at most a day, and half of them from "
        + "strangers. A node carries 40, a relay none."),
    Setting(
      "Power", \.power, .choice, .onReload,
      "Power supply of the machine. mains: the node scans continuously and advertises five times a second. battery: it "
        + "scans for 2s of every 30s, and for 10s after a message; it advertises once a second and announces itself "
        + "once a minute."
    ),
    Setting(
      "DeviceMonitor", \.monitor, .choice, .onReload,
      "When the node closes the link of a silent neighbour: after 330s, or with strict after 60s. strict also closes "
        + "links of phones whose app is in the background."
    ),
    Setting(
      "EncryptedRelayTtlCap", \.encryptedRelayLimit, .number(0...7), .onReload,
      "Maximum TTL with which the node relays encrypted packets of others; packets in fragments are not limited. 0 "
        + "sets no limit."),
    Setting(
      "PadAll", \.padsAll, .bool, .onReload,
      "Whether to pad all packets of this node that fit a link, not only those of private messages, so that their "
        + "sizes reveal less; fragments and files are never padded. Some phones drop padded packets."),
    Setting(
      "BlockRelay", \.blocksRelay, .bool, .onReload,
      "Whether the node also stops relaying packets of blocked peers."),
    Setting(
      "NostrInnerNoise", \.sealsUplink, .bool, .onReload,
      "Whether messages and receipts that go over the uplink are also encrypted with Noise, for the key that the peer "
        + "has in the mesh. Only Earshot nodes can read them, the apps cannot. Both forms are always accepted."),
    Setting(
      "TrustClock", \.trustsClock, .bool, .onReload,
      "Whether this machine's clock is right although no time service confirms it. Phones drop packets whose time is "
        + "off by two minutes, so without it the node sends no packets of its own until the clock is synchronised or "
        + "two neighbours' clocks agree with it."),
    Setting(
      "Dialect", \.dialect, .choice, .onReload,
      "Preferred form of the protocol. live: the form of the apps. seed: the form of the 2025 document, with peers "
        + "that announce it, and the form of the apps with all others. The node receives both forms."
    ),
    Setting(
      "DialectOf", \.dialects, dialectsKind, .onReload,
      "Dialects of single peers, regardless of what they announce: each peer's ID or fingerprint, a colon and the "
        + "dialect."),
  ]
}
