import Checking
import Config
import Hosting
import Tuvali

extension VerifierService {
  /// Settings of section `[Verifier]`. The engine and the credential store define the defaults of their own settings.
  public struct Settings: SettingsSection {
    /// Source of the verdict: a local program, the service itself, or the service by the checker's verdict.
    public enum Decision: String, Sendable, CaseIterable { case client, accept, check }

    /// Whether the verifier waits for wallets from the start of the service.
    public var enabled = false
    public var engine: VerifierEngine.Configuration
    /// Dialects that are served and advertised together; no two share a service UUID. Never empty.
    public var dialects: [Dialect]
    /// Interval at which the advertisement of each dialect is sent.
    public var advertisingInterval: Duration
    public var decision: Decision
    public var check = CheckPolicy()
    /// Maximum listed transfers, including those in progress.
    public var keptTransfers: Int
    /// Maximum number of links of all peers together.
    public var links = 64
    /// Maximum links per address. A second one may come up before the end of the first one is known.
    public var linksPerPeer = 2
    /// Limits on credentials that are stored on the disk and in memory.
    public var vault = CredentialStoreSettings()
    /// Time for which results of transfers are stored; zero stores none.
    public var historyFor = Duration.seconds(2_592_000)
    /// Warnings and other journal lines per peer and minute, from section `[Log]`.
    public var linesPerPeer = LogSettings().linesPerPeer

    public init() { self.init(engine: .init(name: "OVPMOSIP")) }

    public init(
      engine: VerifierEngine.Configuration, dialects: [Dialect] = [.v05, .v04],
      advertisingInterval: Duration = .milliseconds(100), decision: Decision = .client, keptTransfers: Int = 16
    ) {
      self.engine = engine
      self.dialects = dialects
      self.advertisingInterval = advertisingInterval
      self.decision = decision
      self.keptTransfers = keptTransfers
    }

    /// Maximum number of links of wallets on this adapter. One link is left for a newcomer or for another service.
    static func links(of radio: RadioSettings) -> Int { max(1, radio.links - 1) }

    /// Reads the settings of the verifier from a configuration.
    public init(_ configuration: Configuration) {
      self = configuration[Settings.self]
      linesPerPeer = configuration[LogSettings.self].linesPerPeer
      engine.links = Self.links(of: configuration[RadioSettings.self])
    }
  }
}

extension VerifierService.Settings {
  public static let section = "Verifier"

  private static let credentialLimits = (1 << 10)...(64 << 20)
  private static let timeouts = Duration.seconds(1)...Duration.seconds(3_600)

  /// Maximum memory in bytes: waiting credentials with their verdicts; per session a frame, its decrypted and its
  /// inflated form; and credentials being checked.
  public var memory: Int {
    vault.maximumBytes + engine.visitors * 3 * engine.credentialLimit
      + (check.isOn ? CheckQueue.width * (engine.credentialLimit + 8 * CheckReply.limit) : 0)
  }

  public static let keys: [Setting<VerifierService.Settings>] = [
    Setting(
      "Enabled", \.enabled, .bool, .onRestart,
      "Whether to wait for wallets as soon as the service starts. Otherwise a program starts the verifier over D-Bus."),
    Setting(
      "Name", \.engine.name, .text(upTo: Limits.nameBytes), .onRestart,
      "The name that wallets show to people. It is part of the advertisement, which limits its length."),
    Setting(
      "Dialects", \.dialects, dialectKind, .onRestart,
      "The versions of the Tuvali protocol that wallets may use, numbered like the releases of the wallet library. "
        + "Each has its own advertisement. 0.4 and 0.3 share their UUIDs, so only one of the two can be advertised."),
    Setting(
      "AdvertisingInterval", \.advertisingInterval,
      .duration(.milliseconds(20) ... .milliseconds(10_240)), .onRestart,
      "The interval at which each advertisement is sent. With a shorter one phones find the kiosk sooner; with a "
        + "longer one the radio has less to do."),
    Setting(
      "Decision", \.decision, .choice, .onReload,
      "Who answers the wallet when its credential has arrived: a program (client), by Accept or Reject; or the service "
        + "itself. With accept it accepts each credential that arrives complete. With check it accepts a credential "
        + "with the verdict valid, and rejects each other one except those to which OnUndecided= applies; check needs "
        + "Check=yes. An accepted credential is stored until a program fetches it."),
    Setting(
      "Check", \.check.isOn, .bool, .onReload,
      "Whether each credential is checked by earshot-check, a package of its own: issuer, signature, dates and revocation. The verdict is "
        + "on D-Bus. Without the package each credential is undecided."),
    Setting(
      "OnUndecided", \.check.onUndecided, .choice, .onReload,
      "What Decision=check does with a credential on which the checker cannot decide (a format that is not supported, an unknown status, "
        + "a checker that failed): hold leaves it to the operator, reject rejects it. While no checker is installed, "
        + "credentials are held in any case."),
    Setting(
      "CheckSocket", \.check.socket, .path(isSocket: true), .onRestart,
      "Where the checker listens: the socket of earshot-check.socket."),
    Setting(
      "CheckTimeout", \.check.timeout, .duration(.seconds(1) ... .seconds(300)), .onRestart,
      "The time limit of a check. The unit earshot-check@.service has shorter limits; on a slow machine, raise them as "
        + "well (docs/check.md, \"Slow machines\")."),
    Setting(
      "SessionSlots", \.engine.visitors, .number(1...32), .onRestart,
      "The number of session slots, that is, of wallets that may send at the same time. A wallet uses a slot from the "
        + "announcement of its credential to the verdict. If a wallet announces a credential while no slot is free, "
        + "the service ends a transfer that has had no progress for 5 s, is slower than 2 kB/s or is older than 30 s. "
        + "If there is none, it refuses the newest wallet."),
    Setting(
      "CredentialLimit", \.engine.credentialLimit, .size(credentialLimits), .onRestart,
      "The maximum size of a received credential after decompression. A larger one ends the transfer."),
    Setting(
      "ReportDelay", \.engine.reportDelay, .duration(.zero ... .seconds(1)), .onReload,
      "How long to wait before reporting missing chunks to the wallet, so that chunks still under way arrive."),
    Setting(
      "IdentifyTimeout", \.engine.identifyTimeout, .duration(timeouts), .onReload,
      "How long a connected wallet may take to send its identity, which carries its key."),
    Setting(
      "AnnounceTimeout", \.engine.announceTimeout, .duration(timeouts), .onReload,
      "How long a wallet may take from its identity to the announcement of its credential, while a person chooses a card or "
        + "takes a photo. When another wallet needs a link, the wallet that has been silent longest is disconnected, at the "
        + "earliest 2 s after its identity."),
    Setting(
      "IdleTimeout", \.engine.idleTimeout, .duration(timeouts), .onReload,
      "How long a wallet that has announced a credential may send nothing new before it is disconnected."),
    Setting(
      "DecisionTimeout", \.engine.decisionTimeout, .duration(timeouts), .onReload,
      "How long the wallet waits for Accept or Reject. After that it is asked to disconnect without a verdict; the "
        + "credential stays stored and still waits for one."),
    Setting(
      "DisconnectTimeout", \.engine.disconnectTimeout, .duration(.milliseconds(100) ... .seconds(60)), .onReload,
      "How long the wallet may take to disconnect after the answer, before it is disconnected."),
    Setting(
      "KeptTransfers", \.keptTransfers, .number(1...1000), .onRestart,
      "The maximum number of transfers on D-Bus, including current ones. Beyond it the oldest ended transfer is "
        + "removed. A transfer whose credential is still to be judged or fetched is not removed; if all are such, no "
        + "wallet is invited. Credentials without a verdict leave capacity for as many more as SessionSlots=, for phones "
        + "that wait for their verdict."),
    Setting(
      "KeepFor", \.vault.keepFor, .duration(.seconds(60) ... .seconds(31_536_000)), .onReload,
      "How long a credential waits for Accept or Reject, and to be fetched, before it is erased. On a machine without "
        + "a clock, only the time in which the service runs counts.", erasesLeast: .seconds(31_536_000)),
    Setting(
      "HistoryFor", \.historyFor, .duration(.zero ... .seconds(31_536_000)), .onReload,
      "How long the result of each transfer is stored, for `earshot transfers --history`: its time, result, reason and "
        + "duration, and the name of the issuer, but nothing of the credential or the phone. At most 100,000 results are "
        + "stored. 0s: none, and those that are stored are erased.", erasesLeast: .seconds(31_536_000)),
    Setting(
      "KeptBytes", \.vault.maximumBytes, .size((1 << 20)...(1 << 30)), .onRestart,
      "The maximum total size of all credentials that wait, on the disk as well as in memory. A credential beyond it "
        + "is refused."),
    Setting(
      "TransferTimeout", \.engine.transferTimeout, .duration(timeouts), .onReload,
      "How long a wallet may take from the announcement of its credential to the last byte, however large the "
        + "credential is. A smaller credential has less time: a minute, and a second for each 1000 bytes."),
    Setting(
      "WaitingLinks", \.engine.waitingLinks, .number(1...64), .onReload,
      "The maximum number of connected wallets that have not identified themselves. If another one connects, the "
        + "wallet that has waited longest is disconnected if it has waited for 4 s or more; otherwise the new one is. "
        + "The limit is lower if these wallets and those that have identified themselves would use all links of the "
        + "radio."),
    Setting(
      "Links", \.links, .number(1...1024), .onReload,
      "The maximum number of links to all peers together. A peer beyond it is disconnected at once; on BlueZ at most "
        + "64 are admitted."),
    Setting(
      "LinksPerPeer", \.linksPerPeer, .number(1...64), .onReload,
      "The maximum number of links with one address: a peer may connect again before its old link is known to have "
        + "ended."),
  ]

  public static let renamedKeys = [
    "Visitors": "SessionSlots",
    "LeaveTimeout": "DisconnectTimeout",
    "VisitTimeout": "TransferTimeout",
  ]

  private static let dialectKind = ValueKind<[Dialect.Name]>.list().refusing { names in
    names.contains(.v04) && names.contains(.v03) ? "0.4 and 0.3 share their UUIDs, choose one of them" : nil
  }.converted(into: { $0.map(Dialect.named) }, back: { $0.map(\.name) })
}
