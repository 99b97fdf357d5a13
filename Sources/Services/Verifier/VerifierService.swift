import Common
import Crypto
import Journal
import Loop
import Radio
import Transfers
import Tuvali

/// The verifier: waits for a wallet, receives its credential, waits for the next. One engine, one radio.
@LoopActor
public final class VerifierService {
  public struct Settings: Sendable {
    /// Who answers the wallet when its credential is here.
    public enum Decision: Sendable { case client, accept }

    public var engine: VerifierEngine.Configuration
    /// Served and advertised at the same time; no two with one service UUID. Never empty.
    public var dialects: [Dialect]
    public var decision: Decision
    /// Transfers that are kept, the one under way included.
    public var keptTransfers: Int

    public init(
      engine: VerifierEngine.Configuration, dialects: [Dialect] = [.v05], decision: Decision = .client,
      keptTransfers: Int = 16
    ) {
      self.engine = engine
      self.dialects = dialects
      self.decision = decision
      self.keptTransfers = keptTransfers
    }
  }

  public enum State: String, Sendable { case stopped, waiting, serving }

  public let transfers: TransferList
  public private(set) var settings: Settings

  private let radio: any Radio
  private let scheduler: any Scheduler
  private(set) var engine: VerifierEngine
  private var server: (any GATTServer)?
  private var advertisements: [Registration] = []
  private(set) var addresses: [LinkID: BluetoothAddress] = [:]
  private var visit: (link: LinkID, transfer: Transfer)?
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }
  private var onChange: [@LoopActor () -> Void] = []
  private var onReceived: [@LoopActor (Transfer) -> Void] = []

  public init(
    radio: any Radio, scheduler: any Scheduler, settings: Settings, random: any RandomSource & Sendable = SystemRandom()
  ) {
    self.radio = radio
    self.scheduler = scheduler
    self.settings = settings
    engine = VerifierEngine(configuration: settings.engine, random: random)
    transfers = TransferList(limit: settings.keptTransfers, scheduler: scheduler)
  }

  // MARK: For the house

  public var state: State {
    if engine.invitation == nil { return .stopped }
    return engine.visitor == nil ? .waiting : .serving
  }

  /// The text of the QR code, in the first dialect's form; empty when stopped.
  public var connectionURI: String {
    let form = settings.dialects.first?.invitationForm ?? .uri
    return engine.invitation?.text(as: form) ?? ""
  }

  public var counters: VerifierEngine.Counters { engine.counters }

  /// Calls `body` after each change of the state, the URI or the counters.
  public func observe(
    changed: @escaping @LoopActor () -> Void, received: @escaping @LoopActor (Transfer) -> Void
  ) {
    onChange.append(changed)
    onReceived.append(received)
  }

  /// Starts to wait for wallets; does nothing when it waits already.
  ///
  /// - Returns: the connection URI.
  public func start() -> String {
    guard state == .stopped else { return connectionURI }
    server = radio.serve(application, delegate: self)
    Log.shared.notice(
      "Waiting for wallets as \(settings.engine.name)", id: .verifierStarted, .protocolName("tuvali"))
    handle(.start)
    return connectionURI
  }

  /// Leaves the air; a transfer under way fails.
  public func stop() {
    guard state != .stopped else { return }
    handle(.stop)
    server?.close()
    server = nil
    addresses = [:]
    Log.shared.notice("No longer waiting for wallets", id: .verifierStopped, .protocolName("tuvali"))
  }

  /// Takes on what can change while it runs; the next visit is governed by it.
  public func apply(_ settings: Settings) {
    let dialects = self.settings.dialects
    self.settings = settings
    self.settings.dialects = dialects
    engine.configuration = settings.engine
    transfers.limit = settings.keptTransfers
  }

  /// Tells the wallet the verdict, if it is still there, and notes it in any case.
  ///
  /// - Returns: false where there is no credential to judge, or it was judged before.
  public func decide(_ transfer: Transfer, accepted: Bool) -> Bool {
    guard transfer.state == .received else { return false }
    if let visit, visit.transfer === transfer { handle(.decided(visit.link, accepted: accepted)) }
    transfer.enter(accepted ? .accepted : .rejected)
    let verdict: String = accepted ? "accepted" : "rejected"
    Log.shared.info("Credential \(verdict)", id: .transferDecided, .transfer("\(transfer.number)"))
    return true
  }

  /// Ends the link of a transfer.
  ///
  /// - Returns: false where there is none.
  public func disconnect(_ transfer: Transfer) -> Bool {
    guard let visit, visit.transfer === transfer else { return false }
    handle(.dismissed(visit.link))
    return true
  }

  // MARK: The engine

  private func handle(_ event: VerifierEngine.Event) {
    perform(engine.handle(event, at: scheduler.now))
    timer.set(engine.deadline)
  }

  /// Carries the actions out, in order.
  ///
  /// - Returns: whether the write that is being handled is refused.
  @discardableResult
  private func perform(_ actions: [VerifierEngine.Action]) -> Bool {
    var refused = false
    for action in actions {
      switch action {
      case .advertise(let invitation): advertise(invitation)
      case .stopAdvertising: advertisements = []
      case .notify(let link, let characteristic, let dialect, let value):
        server?.notify(value, of: dialect.id(of: characteristic), to: link)
      case .refuse: refused = true
      case .cut(let link): cut(link, afterAnswer: refused)
      case .unseal(let link, let job):
        scheduler.offload({ job.run() }, then: { [weak self] in self?.handle(.unsealed(link, $0)) })
      case .deliver(let link, let credential): keep(credential, from: link)
      case .tell(let link, let notice): tell(notice, of: link)
      }
    }
    if !actions.isEmpty { changed() }
    return refused
  }

  private func advertise(_ invitation: Invitation) {
    advertisements = settings.dialects.compactMap { dialect in
      do throws(RadioError) {
        return try radio.advertise(dialect.advertisement(for: invitation))
      } catch {
        Log.shared.error("Not advertised: \(error)", .error(error), .dialect(dialect.name.rawValue))
        return nil
      }
    }
  }

  /// A refused wallet gets its answer before it loses the link.
  private func cut(_ link: LinkID, afterAnswer: Bool) {
    guard afterAnswer else {
      server?.disconnect(link)
      return
    }
    let delay = scheduler.schedule(after: .milliseconds(100)) { [weak self] in
      self?.farewells[link] = nil
      self?.server?.disconnect(link)
    }
    farewells[link] = delay
  }

  private(set) var farewells: [LinkID: Registration] = [:]

  private func keep(_ credential: [UInt8], from link: LinkID) {
    guard let visit, visit.link == link else { return }
    guard transfers.waitingCredentials < settings.keptTransfers else {
      let full = TuvaliError(
        .verifierUnknown, .limitExceeded,
        "\(settings.keptTransfers) credentials wait to be judged, and no more are kept.")
      handle(.kept(link, full))
      return
    }
    visit.transfer.receive(credential)
    handle(.kept(link, nil))
  }

  private func changed() {
    for body in onChange { body() }
  }

  // MARK: What happens

  private func tell(_ notice: VerifierEngine.Notice, of link: LinkID) {
    switch notice {
    case .secured(let dialect):
      let transfer = visit?.link == link ? visit?.transfer : nil
      begin(transfer ?? transfers.add(.incoming, .connected), on: link, dialect: dialect)
    case .announced:
      visit?.transfer.enter(.transferring)
      showFigures()
    case .received: received()
    case .statusSent: break
    case .failed(let error): fail(error, on: link)
    case .refused:
      Log.shared.info(
        "A second wallet was refused: one is being served", id: .transferRefused, .link(link),
        .protocolName("tuvali"))
    case .ended: end(link)
    }
  }

  private func begin(_ transfer: Transfer, on link: LinkID, dialect: Dialect) {
    transfer.met(addresses[link], dialect: dialect.name.rawValue)
    visit = (link, transfer)
    showFigures()
    Log.shared.info(
      "A wallet is here", id: .transferStarted, .transfer("\(transfer.number)"), .link(link),
      .protocolName("tuvali"), .dialect(dialect.name.rawValue))
  }

  private func received() {
    guard let transfer = visit?.transfer else { return }
    showFigures()
    transfer.enter(.received)
    Log.shared.notice(
      "A credential of \(transfer.credential?.count ?? 0) bytes is here", id: .transferReceived,
      .transfer("\(transfer.number)"), .protocolName("tuvali"))
    for body in onReceived { body(transfer) }
    if settings.decision == .accept {
      // After the report that is being sent in this very turn.
      scheduler.offload({}, then: { [weak self] in _ = self?.decide(transfer, accepted: true) })
    }
  }

  private func fail(_ error: TuvaliError, on link: LinkID) {
    let transfer = visit?.link == link ? visit?.transfer : nil
    let failed = transfer ?? transfers.add(.incoming, .connected)
    if transfer == nil { failed.met(addresses[link], dialect: "") }
    showFigures()
    failed.enter(.failed, error: error)
    if transfer == nil { failed.end() }
    Log.shared.warning(
      "A transfer failed: \(error)", id: .transferFailed, .transfer("\(failed.number)"), .link(link), .error(error),
      .protocolName("tuvali"))
  }

  private func end(_ link: LinkID) {
    guard let visit, visit.link == link else { return }
    visit.transfer.end()
    self.visit = nil
    if visit.transfer.state == .received {
      Log.shared.warning(
        "The wallet is gone, and nobody has judged its credential", .transfer("\(visit.transfer.number)"), .link(link),
        .protocolName("tuvali"))
    }
  }

  private func showFigures() {
    guard let progress = engine.progress, let transfer = visit?.transfer else { return }
    transfer.update(Transfer.Figures(progress))
  }
}

extension VerifierService: GATTServerDelegate {
  public func linkOpened(_ link: LinkID, address: BluetoothAddress) {
    addresses[link] = address
    handle(.linkOpened(link))
  }

  public func linkChanged(_ link: LinkID, mtu: Int) {
    handle(.linkChanged(link, mtu: mtu))
    showFigures()
  }

  public func written(
    _ value: [UInt8], to id: CharacteristicID, on link: LinkID
  ) throws(ATTError) {
    guard let dialect = settings.dialects.first(where: { $0.service == id.service }),
      let characteristic = dialect.characteristic(for: id.characteristic)
    else { throw .writeNotPermitted }
    let actions = engine.handle(.written(link, characteristic, dialect, value), at: scheduler.now)
    let refused = perform(actions)
    timer.set(engine.deadline)
    showFigures()
    if refused { throw .busy }
  }

  public func linkClosed(_ link: LinkID) {
    handle(.linkClosed(link))
    addresses[link] = nil
    farewells[link] = nil
  }

  private var application: GATTApplication {
    GATTApplication(services: settings.dialects.map(\.gattService))
  }
}

extension Transfer.Figures {
  fileprivate init(_ progress: VerifierEngine.Progress) {
    self.init()
    mtu = progress.mtu
    bytesExpected = progress.bytesExpected
    bytesTransferred = progress.bytesReceived
    chunksExpected = progress.chunksExpected
    chunksMissing = progress.chunksMissing
    crcFailures = progress.crcFailures
  }
}
