import Config
import Hosting
import Tuvali

extension VerifierService {
  /// Section `[Verifier]`. What the engine or the vault does has its default there.
  public struct Settings: SettingsSection {
    /// What answers the wallet when its credential is here: a local program, the service itself, or the service by the checker's
    /// verdict.
    public enum Decision: String, Sendable, CaseIterable { case client, accept, check }

    /// Whether the verifier waits for wallets as soon as the service starts.
    public var enabled = false
    public var engine: VerifierEngine.Configuration
    /// Served and advertised at the same time; no two with one service UUID. Never empty.
    public var dialects: [Dialect]
    /// How often each of their advertisements is sent.
    public var advertisingInterval: Duration
    public var decision: Decision
    public var check = CheckPolicy()
    /// Transfers that are kept, those under way included.
    public var keptTransfers: Int
    /// Links that may be there at one time, whoever is behind them.
    public var links = 64
    /// Those of one address: a second one comes before the end of the first is known.
    public var linksPerPeer = 2
    /// How long and how much the vault keeps.
    public var vault = VaultSettings()
    /// Warnings in the journal about one peer in a minute, and other lines about it. The house's `[Log]` says how many.
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

    /// The settings that a configuration holds for the verifier.
    public init(_ configuration: Configuration) {
      self = configuration[Settings.self]
      linesPerPeer = configuration[LogSettings.self].linesPerPeer
      engine.links = Self.links(of: configuration[RadioSettings.self])
    }
  }
}
