import Bitchat
import Common
import Config
import Hosting
import MeshNaming
import MeshStore

extension MeshService {
  /// Section `[Mesh]`. Defaults of the engine are set there.
  public struct Settings: SettingsSection {
    /// Role of the node for peers and local programs.
    public enum Role: String, Sendable, CaseIterable {
      case node
      /// Relays packets, stores nothing, and answers no private message.
      case relay
      /// Carries many courier envelopes.
      case mailbox
    }

    /// Idle timeout of links.
    public enum Monitor: String, Sendable, CaseIterable {
      case standard = "default"
      case strict
    }

    public var enabled = false
    public var nickname = "earshot"
    public var role = Role.node
    public var relayPolicy = RelayPolicy.mains
    /// Time for which public messages are stored on disk; zero stores them in memory only.
    public var archive = Duration.seconds(6 * 3600)
    /// Maximum bytes of received files, and how long they are stored.
    public var fileStore = 64 << 20
    public var filesFor = Duration.seconds(7 * 24 * 3600)
    /// Maximum number of neighbours.
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
    /// Preferred dialect, and dialects of single peers.
    public var dialect = MeshDialect.live
    public var dialects: [PeerDialect] = []
    /// Journal lines per kind of event and minute, from section `[Log]`.
    public var linesPerPeer = LogSettings().linesPerPeer

    /// Configured dialect of a peer.
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

    /// Reads the settings of the mesh from a configuration.
    public init(_ configuration: Configuration) {
      self = configuration[Settings.self]
      linesPerPeer = configuration[LogSettings.self].linesPerPeer
      // One link of the adapter stays free for a client of another service.
      links = min(links, max(1, configuration[RadioSettings.self].links - 1))
    }

    /// Settings of the store.
    var kept: MeshKeeper.Settings {
      var kept = MeshKeeper.Settings(archive: archive)
      (kept.fileBytes, kept.filesFor) = (fileStore, filesFor)
      return kept
    }

    func engine(nickname: String) -> MeshEngine.Configuration {
      var configuration = MeshEngine.Configuration(nickname: nickname)
      configuration.isRelayOnly = role == .relay
      configuration.relayPolicy = relayPolicy
      configuration.encryptedRelayLimit = encryptedRelayLimit == 0 ? nil : UInt8(encryptedRelayLimit)
      configuration.padsAll = padsAll
      configuration.blocksRelay = blocksRelay
      if role == .mailbox { configuration.carries = courierEnvelopes }
      configuration.isSparing = power == .battery
      configuration.isMonitorStrict = monitor == .strict
      configuration.dialect = dialect
      configuration.dialects = Dictionary(dialects.map { ($0.peer, $0.dialect) }) { $1 }
      return configuration
    }
  }
}

extension MeshService.Settings {
  public static let section = "Mesh"

  /// Maximum memory in bytes. In MiB: log 20, archive 6, queues of links 12, reassembly 8, outgoing texts with the
  /// overhead of their fragments 24. Received files waiting for the disk 8, outgoing files 16, files opened by programs
  /// 32.
  public var memory: Int { enabled ? (126 << 20) + (role == .mailbox ? 8 << 20 : 0) : 0 }

  /// Maximum length of a nickname, in bytes; the apps show no more.
  static let nicknameBytes = 60

  /// Maximum peers with a configured dialect.
  private static let dialectLimit = 64

  private static let dialectsKind = ValueKind<[PeerDialect]>.words(
    "one or more words like 0123456789abcdef:seed or 0123456789abcdef:live", upTo: dialectLimit, key: \.peer,
    show: \.word, parse: { PeerDialect($0) })

  public static let keys: [Setting<MeshService.Settings>] = [
    Setting("Enabled", \.enabled, .bool, .onRestart, "Whether this machine is a node of the Bitchat mesh."),
    Setting(
      "Nickname", \.nickname,
      .text(upTo: nicknameBytes).refusing { NicknameText.isUsable($0) ? nil : "it cannot be shown on one line" },
      .onReload,
      "What the node is called, in clear and for everybody near. A name that was set over D-Bus counts before it."),
    Setting(
      "Role", \.role, .choice, .onRestart,
      "node takes part in everything. relay passes on what others say, keeps nothing of it, answers no private message and "
        + "tells no more of itself than an announce needs. mailbox is a node that carries letters for many who are not there."
    ),
    Setting(
      "RelayPolicy", \.relayPolicy, .choice, .onReload,
      "How packets of others are passed on. mains: all of them, to every neighbour who has not heard them, for a machine that "
        + "does not live on a battery. apps: as the phones do it. off: none."),
    Setting(
      "Archive", \.archive, .duration(.zero ... .seconds(6 * 3600)), .onReload,
      "How long public lines are kept on the disk, so that they are there after a restart. 0s keeps them in memory alone."
    ),
    Setting(
      "FileStore", \.fileStore, .size((1 << 20)...(1 << 30)), .onReload,
      "How many bytes the files that others have sent take together, sealed in the state directory. Of more, files for "
        + "everybody go first, then private ones, those of favourite and verified peers last.",
      erasesLeast: 1 << 30),
    Setting(
      "FilesFor", \.filesFor, .duration(.seconds(60)...(.seconds(365 * 24 * 3600))), .onReload,
      "How long the files that others have sent are kept.", erasesLeast: .seconds(365 * 24 * 3600)),
    Setting(
      "Peers", \.links, .number(1...64), .onReload,
      "How many neighbours the node has links with at most. One link of [Radio] Links= stays free in any case."),
    Setting(
      "CourierEnvelopes", \.courierEnvelopes, .number(0...1000), .onRestart,
      "How many letters of others a mailbox carries at most, for a day each: half of them of strangers. A node carries 40, a "
        + "relay none."),
    Setting(
      "Power", \.power, .choice, .onReload,
      "What the machine lives on. mains: it scans all the time and is advertised five times a second. battery: it scans 2s of "
        + "30s, and for 10s after somebody has said something, is advertised once a second and announces itself once a minute."
    ),
    Setting(
      "DeviceMonitor", \.monitor, .choice, .onReload,
      "When a silent neighbour's link is cut: after 330s, or with strict after 60s. strict also cuts phones whose app is in "
        + "the background."
    ),
    Setting(
      "EncryptedRelayTtlCap", \.encryptedRelayLimit, .number(0...7), .onReload,
      "The highest time to live that encrypted packets of others are passed on with; those in fragments are not limited. "
        + "0 sets no limit."),
    Setting(
      "PadAll", \.padsAll, .bool, .onReload,
      "Whether all packets of this node that fit a link are padded, and not only those of private messages, so that their sizes "
        + "tell less; fragments and files never are. Some phones do not read such packets."),
    Setting(
      "BlockRelay", \.blocksRelay, .bool, .onReload,
      "Whether packets of blocked peers are not passed on either."),
    Setting(
      "TrustClock", \.trustsClock, .bool, .onReload,
      "Whether this machine's clock is right although no time service says so. Phones drop what is off by two minutes, so "
        + "without it nothing is said until the clock is synchronised or two neighbours' clocks agree with it."),
    Setting(
      "Dialect", \.dialect, .choice, .onReload,
      "The form of the protocol that the node prefers. live: what the apps speak. seed: the form of the document of 2025, with "
        + "peers that say that they speak it; with all others what the apps speak. Everything that comes is understood in both."
    ),
    Setting(
      "DialectOf", \.dialects, dialectsKind, .onReload,
      "The dialect of single peers, whatever they say: each peer's ID or fingerprint with its dialect behind a colon."),
  ]
}
