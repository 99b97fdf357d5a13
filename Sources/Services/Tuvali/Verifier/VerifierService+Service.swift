import Checking
import Config
import DBus
import Hosting
import Journal
import LocalSockets
import Loop
import Radio
import Store
import Transfers

extension VerifierService: Service {
  public nonisolated static let name = "Verifier"
  public nonisolated static let sections: [any SettingsSection.Type] = [Settings.self]
  public nonisolated static let linkShare = share(RadioSettings())
  public nonisolated static let messages = MessageID.verifier + MessageID.transfers

  public nonisolated static func linkShare(in configuration: Configuration) -> LinkShare {
    share(configuration[RadioSettings.self])
  }

  /// Without `Check=yes` and a checker, `Decision=check` accepts no credential.
  public nonisolated static func problems(with configuration: Configuration) -> [String] {
    let settings = configuration[Settings.self]
    if settings.decision == .check, !settings.check.isOn { return [CheckPolicy.needsCheck] }
    guard settings.check.isOn, !SocketConnector.isSocket(settings.check.socket) else { return [] }
    return [SocketChecker.absence(at: settings.check.socket)]
  }

  /// Reserves links for all session slots. Wallets connect one after the other, so one link is reserved at a time.
  private nonisolated static func share(_ radio: RadioSettings) -> LinkShare {
    LinkShare(needs: Settings.links(of: radio), spare: 1, may: 64, priority: 10)
  }

  public static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let service = VerifierService(radio: radio, scheduler: scheduler, settings: Settings())
    let transfer = service.transfers.add(.incoming, .connected)
    return [
      DescribedObject(VerifierAdaptor.path.string, VerifierAdaptor.interface(service)),
      DescribedObject(
        "\(VerifierAdaptor.path.string)/credentialN",
        CredentialObjects.interface(transfer, VerifierAdaptor.actions(service))),
    ]
  }

  public static func make(_ context: ServiceContext) -> VerifierService? {
    let settings = Settings(context.configuration)
    // One worker for both: they use the same disk.
    let disk = context.makeWorker()
    let history = TransferHistoryStore(
      directory: context.stateDirectory, keepFor: settings.historyFor, scheduler: context.scheduler, disk: disk)
    let service = VerifierService(
      radio: context.radio, scheduler: context.scheduler, settings: settings, vault: vault(settings, context, disk),
      history: history, numbers: .shared)
    service.observe(changed: context.statusChanged, received: { _ in })
    return service
  }

  /// Without a state directory the kiosk still serves wallets, and reports the problem.
  private static func vault(
    _ settings: Settings, _ context: ServiceContext, _ disk: any Offloading
  ) -> CredentialStore {
    let directory = context.stateDirectory
    var limits = RecordSpool.Limits()
    limits.maximumCount = settings.keptTransfers
    limits.maximumBytes = settings.vault.maximumBytes
    return CredentialStore(
      settings.vault, scheduler: context.scheduler, disk: disk,
      open: { [limits] () throws(StoreError) in
        let state = try StateDirectory(path: directory)
        return try RecordSpool(in: state, key: try SpoolKey.load(from: state), limits: limits)
      })
  }

  public func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    [VerifierAdaptor(self, on: tree, manager: manager)]
  }

  public func begin() {
    vault.begin()
    history.begin()
    if settings.enabled { _ = start() }
  }

  public func whenRestored(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    vault.whenIdle(within: limit) { [weak self] in
      self?.changed()
      then()
    }
  }

  public func apply(_ configuration: Configuration) {
    let settings = Settings(configuration)
    apply(settings)
    vault.settings.keepFor = settings.vault.keepFor
    history.keepFor = settings.historyFor
  }

  public var statusLine: String {
    let work =
      switch state {
      case .stopped: "The verifier is stopped."
      case .waiting: "Waiting for wallets as \(settings.engine.name)."
      case .serving: visitors == 1 ? "Serving a wallet." : "Serving \(visitors) wallets."
      case .full: "No wallet is invited: \(transfers.waitingCredentials) credentials wait. Try: earshot transfers"
      }
    return [work, vault.troubleInShort, checkerTrouble].filter { !$0.isEmpty }.joined(separator: " ")
  }

  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    // Results of transfers may be lost, credentials not.
    let share = limit / 4
    history.writeLast(within: share) { [vault] in vault.whenIdle(within: limit - share, then: then) }
  }
}
