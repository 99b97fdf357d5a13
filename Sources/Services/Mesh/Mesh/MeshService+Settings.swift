import Bitchat
import Common
import Config
import Hosting
import MeshNaming
import MeshStore

extension MeshService {
  /// Section `[Mesh]`. What the engine does has its default there.
  public struct Settings: SettingsSection {
    /// What the node does for others and for local programs.
    public enum Role: String, Sendable, CaseIterable {
      case node
      /// It passes on what others say, stores nothing and answers no private message.
      case relay
      /// It carries many letters of those who are not there.
      case mailbox
    }

    /// When a link is cut whose peer is silent.
    public enum Monitor: String, Sendable, CaseIterable {
      case standard = "default"
      case strict
    }

    public var enabled = false
    public var nickname = "earshot"
    public var role = Role.node
    public var relayPolicy = RelayPolicy.mains
    /// How long public lines are kept on the disk; zero: in memory alone.
    public var archive = Duration.seconds(6 * 3600)
    /// The most bytes that received files have together, and how long they are kept.
    public var fileStore = 64 << 20
    public var filesFor = Duration.seconds(7 * 24 * 3600)
    /// Neighbours that the node has at most.
    public var links = 7
    public var monitor = Monitor.standard
    /// Letters of others that a mailbox carries at most.
    public var courierEnvelopes = 1000
    public var power = Power.mains
    /// The highest time to live that encrypted packets are passed on with; 0: no limit.
    public var encryptedRelayLimit = 0
    public var padsAll = false
    public var blocksRelay = false
    public var trustsClock = false
    /// The dialect that the node prefers, and those of single peers.
    public var dialect = MeshDialect.live
    public var dialects: [PeerDialect] = []
    /// Lines in the journal that one kind of event may cause in a minute. The house's `[Log]` says how many.
    public var linesPerPeer = LogSettings().linesPerPeer

    /// The dialect that a peer is spoken to in.
    public struct PeerDialect: Hashable, Sendable {
      public let peer: PeerID
      public let dialect: MeshDialect

      public init(peer: PeerID, dialect: MeshDialect) {
        (self.peer, self.dialect) = (peer, dialect)
      }

      /// Reads a peer ID or a fingerprint, a colon and a dialect; nil for anything else.
      init?(_ word: String) {
        let parts = word.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let dialect = MeshDialect(rawValue: String(parts[1])) else { return nil }
        guard let peer = (try? PeerID(text: parts[0])) ?? (try? Fingerprint(text: parts[0]))?.peerID else { return nil }
        self.init(peer: peer, dialect: dialect)
      }

      var word: String { "\(peer):\(dialect.rawValue)" }
    }

    public init() {}

    /// The settings that a configuration holds for the mesh.
    public init(_ configuration: Configuration) {
      self = configuration[Settings.self]
      linesPerPeer = configuration[LogSettings.self].linesPerPeer
      // One link of the adapter stays free for a visitor of another service.
      links = min(links, max(1, configuration[RadioSettings.self].links - 1))
    }

    /// What governs what is kept.
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

  /// In MiB: the log 20, the archive 6, the queues of the links 12, packets that are put together 8, texts that wait to be sent, with
  /// what each piece takes, 24, files that came and wait for the disk 8, those on their way 16, and those that programs have open 32.
  public var memory: Int { enabled ? (126 << 20) + (role == .mailbox ? 8 << 20 : 0) : 0 }

  /// The longest nickname in bytes; the apps show no more.
  static let nicknameBytes = 60

  /// The most peers whose dialect is configured.
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
