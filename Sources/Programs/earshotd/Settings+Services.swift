import Config
import Journal
import Tuvali
import Verifier
import Wallet

extension VerifierService.Settings {
  init(_ settings: EarshotSettings.Verifier) {
    var engine = VerifierEngine.Configuration(name: settings.name)
    engine.credentialLimit = settings.credentialLimit
    engine.reportDelay = settings.reportDelay
    engine.identifyTimeout = settings.identifyTimeout
    engine.idleTimeout = settings.idleTimeout
    engine.decisionTimeout = settings.decisionTimeout
    engine.leaveTimeout = settings.leaveTimeout
    engine.visitTimeout = settings.visitTimeout
    engine.waitingLinks = settings.waitingLinks
    self.init(
      engine: engine, dialects: settings.dialects.map { Dialect.named(Dialect.Name($0)) },
      advertisingInterval: settings.advertisingInterval, decision: settings.decision == .accept ? .accept : .client,
      keptTransfers: settings.keptTransfers)
  }
}

extension WalletEngine.Configuration {
  init(_ settings: EarshotSettings.Wallet) {
    self.init()
    credentialLimit = settings.credentialLimit
    scanTimeout = settings.scanTimeout
    connectTimeout = settings.connectTimeout
    reportTimeout = settings.reportTimeout
    idleTimeout = settings.idleTimeout
    transferTimeout = settings.transferTimeout
  }
}

extension Dialect.Name {
  init(_ setting: EarshotSettings.Verifier.Dialect) {
    switch setting {
    case .v05: self = .v05
    case .v04: self = .v04
    case .v03: self = .v03
    }
  }
}

extension LogLevel {
  init(_ setting: EarshotSettings.Log.Level) {
    switch setting {
    case .error: self = .error
    case .warning: self = .warning
    case .notice: self = .notice
    case .info: self = .info
    case .debug: self = .debug
    }
  }
}
