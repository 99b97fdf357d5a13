import Common
import Config
import Crypto
import DBus
import Hosting
import Journal
import Loop
import Radio
import Transfers
import Tuvali

/// Wallet service: sends credentials to verifiers, a bounded number at a time.
@LoopActor
public final class WalletService {
  /// Counters of transfers since the service started.
  public struct Counters: Hashable, Sendable {
    public var begun = 0
    public var accepted = 0
    public var rejected = 0
    /// The verifier has the credential and sent no verdict.
    public var undecided = 0
    public var failed = 0
    /// Transfers rejected because of the limit.
    public var refused = 0
  }

  public let transfers: TransferList
  public private(set) var settings: Settings
  public private(set) var counters = Counters()

  private let radio: any Radio
  let scheduler: any Scheduler
  private let random: @LoopActor () -> any RandomSource & Sendable
  private var sessions: [Int: WalletSession] = [:]
  /// Called after each change of `active`.
  var onChange: @LoopActor () -> Void = {}

  /// - Parameters:
  ///   - random: makes the source of each transfer's key and nonce.
  ///   - numbers: source of the transfers' numbers.
  public init(
    radio: any Radio, scheduler: any Scheduler, settings: Settings = .init(),
    random: @escaping @LoopActor () -> any RandomSource & Sendable = { SystemRandom() },
    numbers: TransferNumbers = TransferNumbers()
  ) {
    self.radio = radio
    self.scheduler = scheduler
    self.settings = settings
    self.random = random
    transfers = TransferList(limit: settings.keptTransfers, scheduler: scheduler, numbers: numbers)
  }

  /// Applies settings that can change at run time, for later transfers.
  public func apply(_ settings: Settings) {
    self.settings = settings
    transfers.limit = settings.keptTransfers
  }

  /// Number of transfers that have not ended.
  public var active: Int { sessions.count }

  /// Sends `credential` (UTF-8) to the verifier with `invitation` in its QR code.
  ///
  /// - Returns: the new transfer.
  /// - Throws: an error for an invalid invitation, a credential that is empty, too large or not text, or too many
  ///   transfers in progress.
  public func send(_ invitation: String, _ credential: [UInt8]) throws(TuvaliError) -> Transfer {
    guard sessions.count < settings.concurrentTransfers else {
      counters.refused += 1
      throw TuvaliError(
        .walletUnknown, .limitExceeded, "\(sessions.count) transfers are under way. Wait for one to end.")
    }
    let engine = try WalletEngine(
      invitation: invitation, text: credential, configuration: settings.engine, random: random())
    counters.begun += 1
    let transfer = transfers.add(.outgoing, .searching)
    Log.shared.info(
      "Scanning for a verifier to send it a credential of \(credential.count) bytes", id: .transferStarted,
      .transfer("\(transfer.number)"), .protocolName("tuvali"))
    transfer.send(bytes: credential.count)
    let session = WalletSession(engine, transfer, radio: radio, scheduler: scheduler) { [weak self] in
      self?.ended(transfer)
    }
    sessions[transfer.number] = session
    session.start()
    onChange()
    return transfer
  }

  private func ended(_ transfer: Transfer) {
    sessions[transfer.number] = nil
    switch transfer.state {
    case .accepted: counters.accepted += 1
    case .rejected: counters.rejected += 1
    case .undecided: counters.undecided += 1
    default: counters.failed += 1
    }
    onChange()
  }

  /// Ends a transfer in progress.
  ///
  /// - Returns: false if it has ended already.
  public func disconnect(_ transfer: Transfer) -> Bool {
    guard let session = sessions[transfer.number], session.transfer === transfer else { return false }
    session.stop()
    return true
  }

  /// Ends all transfers that are in progress, as failed or undecided.
  public func stop() {
    for session in sessions.values { session.stop() }
  }
}

extension WalletService: Service {
  public nonisolated static let name = "Wallet"
  public nonisolated static let sections: [any SettingsSection.Type] = [Settings.self]
  public nonisolated static let linkShare = LinkShare(needs: 1, may: 64, priority: 5)
  public nonisolated static let messages = MessageID.transfers

  public static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let service = WalletService(radio: radio, scheduler: scheduler)
    let transfer = service.transfers.add(.outgoing, .searching)
    return [
      DescribedObject(WalletAdaptor.path.string, WalletAdaptor.interface(service, path: { _ in WalletAdaptor.path })),
      DescribedObject(
        "\(WalletAdaptor.path.string)/credentialN",
        CredentialObjects.interface(transfer, WalletAdaptor.actions(service))),
    ]
  }

  public static func make(_ context: ServiceContext) -> WalletService? {
    let settings = context.configuration[Settings.self]
    guard settings.enabled else { return nil }
    let service = WalletService(
      radio: context.radio, scheduler: context.scheduler, settings: settings, numbers: .shared)
    service.onChange = context.statusChanged
    return service
  }

  public func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    [WalletAdaptor(self, on: tree, manager: manager)]
  }

  /// Does nothing: a wallet acts only on calls.
  public func begin() {}

  public func apply(_ configuration: Configuration) { apply(configuration[Settings.self]) }

  public var statusLine: String {
    switch active {
    case 0: ""
    case 1: "Sending a credential to a verifier."
    default: "Sending \(active) credentials to verifiers."
    }
  }
}

extension WalletService {
  /// Settings of section `[Wallet]`. The engine defines the defaults of its own settings.
  public struct Settings: SettingsSection {
    /// Whether this machine may send credentials.
    public var enabled = true
    public var engine: WalletEngine.Configuration
    /// Maximum number of transfers that are in progress at a time.
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
