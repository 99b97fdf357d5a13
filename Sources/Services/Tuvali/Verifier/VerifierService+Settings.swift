import Config
import Hosting
import Tuvali

extension VerifierService {
  /// Section `[Verifier]`. Defaults of the engine and the credential store are set there.
  public struct Settings: SettingsSection {
    /// Source of the verdict: a local program, the service itself, or the service by the checker's verdict.
    public enum Decision: String, Sendable, CaseIterable { case client, accept, check }

    /// Whether the verifier waits for wallets from the start of the service.
    public var enabled = false
    public var engine: VerifierEngine.Configuration
    /// Dialects that are served and advertised together; no two share a service UUID. Never empty.
    public var dialects: [Dialect]
    /// Interval of each dialect's advertisement.
    public var advertisingInterval: Duration
    public var decision: Decision
    public var check = CheckPolicy()
    /// Maximum listed transfers, including those in progress.
    public var keptTransfers: Int
    /// Maximum links of all peers.
    public var links = 64
    /// Maximum links per address: a second one may arrive before the end of the first is known.
    public var linksPerPeer = 2
    /// Limits on stored credentials.
    public var vault = VaultSettings()
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
