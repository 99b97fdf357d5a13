import Config
import DBus
import Journal
import Tuvali
import Verifier
import Wallet

extension VerifierService.Settings {
  init(_ all: EarshotSettings) {
    let settings = all.verifier
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
    links = settings.links
    linksPerPeer = settings.linksPerPeer
    linesPerPeer = all.log.linesPerPeer
  }
}

extension WalletService.Settings {
  init(_ settings: EarshotSettings.Wallet) {
    self.init()
    engine.credentialLimit = settings.credentialLimit
    engine.scanTimeout = settings.scanTimeout
    engine.connectTimeout = settings.connectTimeout
    engine.reportTimeout = settings.reportTimeout
    engine.idleTimeout = settings.idleTimeout
    engine.transferTimeout = settings.transferTimeout
    concurrentTransfers = settings.transfers
    keptTransfers = settings.keptTransfers
  }
}

extension BusLimits {
  init(_ settings: EarshotSettings.Bus) {
    self.init()
    waitingCallers = settings.waitingCallers
    waitingCalls = settings.waitingCalls
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
