import Config
import Tuvali

extension WalletService {
  /// Section `[Wallet]`. Defaults of the engine are set there.
  public struct Settings: SettingsSection {
    /// Whether the wallet is enabled.
    public var enabled = true
    public var engine: WalletEngine.Configuration
    /// Maximum transfers in progress.
    public var concurrentTransfers = 4
    /// Maximum listed transfers, including those in progress.
    public var keptTransfers = 16

    public init() { self.init(engine: .init()) }

    public init(engine: WalletEngine.Configuration) {
      self.engine = engine
    }
  }
}

extension WalletService.Settings {
  public static let section = "Wallet"

  private static let credentialLimits = (1 << 10)...(64 << 20)
  private static let timeouts = Duration.seconds(1)...Duration.seconds(3_600)

  /// Maximum memory in bytes: per transfer the credential, its compressed and its encrypted form; and files being read.
  public var memory: Int { enabled ? (concurrentTransfers * 3 + 4) * engine.credentialLimit : 0 }

  public static let keys: [Setting<WalletService.Settings>] = [
    Setting(
      "Enabled", \.enabled, .bool, .onRestart,
      "Whether programs may send credentials to verifiers."),
    Setting(
      "CredentialLimit", \.engine.credentialLimit, .size(credentialLimits), .onReload,
      "The maximum size of a credential to send, before compression."),
    Setting(
      "ScanTimeout", \.engine.scanTimeout, .duration(timeouts), .onReload,
      "How long to scan for the verifier with the given QR code."),
    Setting(
      "ConnectTimeout", \.engine.connectTimeout, .duration(timeouts), .onReload,
      "How long connecting to the verifier may take, including its answer to Identify."),
    Setting(
      "ReportTimeout", \.engine.reportTimeout, .duration(timeouts), .onReload,
      "How long to wait for the verifier's report of missing chunks before requesting it again."),
    Setting(
      "IdleTimeout", \.engine.idleTimeout, .duration(timeouts), .onReload,
      "How long the verifier may not respond before the transfer fails."),
    Setting(
      "TransferTimeout", \.engine.transferTimeout, .duration(timeouts), .onReload,
      "How long a whole transfer may take, even if the verifier is responsive."),
    Setting(
      "Transfers", \.concurrentTransfers, .number(1...64), .onReload,
      "The maximum number of transfers under way at the same time. A transfer beyond it is refused."),
    Setting(
      "KeptTransfers", \.keptTransfers, .number(1...1000), .onReload,
      "The maximum number of transfers on D-Bus. Beyond it the oldest ended transfer is removed."),
  ]
}
