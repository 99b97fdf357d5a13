import Checking
import Common
import Crypto
import Journal
import LocalSockets
import Loop
import Radio
import Transfers
import Tuvali

/// Verifier service: receives credentials of several wallets at a time. It has one engine and one radio.
@LoopActor
public final class VerifierService {
  public enum State: String, Sendable, CaseIterable {
    case stopped
    /// The verifier advertises, and no wallet has a session.
    case waiting
    /// At least one wallet has a session.
    case serving
    /// No wallet is being served or invited, because there is no capacity for a credential.
    case full
  }

  public let transfers: TransferList
  public let vault: CredentialStore
  let checks: CredentialChecks
  /// The stored results of ended transfers.
  public let history: TransferHistoryStore
  public private(set) var settings: Settings

  private let radio: any Radio
  let scheduler: any Scheduler
  private(set) var engine: VerifierEngine
  private var server: (any GATTServer)?
  private var advertisements: [Registration] = []
  private(set) var addresses: [LinkID: BluetoothAddress] = [:]
  /// Transfers of the wallets that are being served, by link.
  var visits: [LinkID: Transfer] = [:]
  private var statusWatch: Registration?
  /// Inhibits other services' radio use while a session slot is in use.
  private var quiet: Registration?
  /// Link on which a verification status was last queued.
  private var sentStatus: LinkID?
  /// Capacity that was last reported to the engine.
  private var knownRoom: VerifierEngine.Room?
  /// The load that was last written to the journal.
  private var knownLoad = CredentialCapacity.Load.Kind.normal
  /// Limits the journal lines about the load.
  var loadLines = RateLimiter<CredentialCapacity.Load.Kind>(perMinute: 2, capacity: 4)
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }
  var lostPlaces = FailedSessionPeers()
  /// Limits the journal lines about each phone.
  var journal: TransferJournal
  /// Number of links that were cut at once because of a limit.
  private(set) var refusedLinks = 0
  /// Number of credentials rejected for lack of capacity.
  private(set) var storeFull = 0
  private let changes = Observers<Void>()
  let receptions = Observers<Transfer>()
  private let refusals = Observers<WalletRefusal>()
  let verdicts = Observers<Transfer>()
  /// Limits the signals about refused phones.
  private var announcedRefusals = RateLimiter<String>(perMinute: VerifierService.refusalsPerMinute, capacity: 8)

  /// - Parameters:
  ///   - vault: store of credentials; nil for memory only. `restore` restores credentials of an earlier run, after the
  ///     D-Bus adaptors exist.
  ///   - checker: checks credentials, if enabled in the settings.
  ///   - history: stores the results of transfers; nil for none.
  ///   - numbers: source of the transfers' numbers.
  public init(
    radio: any Radio, scheduler: any Scheduler, settings: Settings, vault: CredentialStore? = nil,
    checker: (any CredentialChecker)? = nil, history: TransferHistoryStore? = nil,
    random: any RandomSource & Sendable = SystemRandom(), numbers: TransferNumbers = TransferNumbers()
  ) {
    self.vault = vault ?? CredentialStore(scheduler: scheduler)
    self.history = history ?? TransferHistoryStore(directory: "", keepFor: .zero, scheduler: scheduler)
    checks = CredentialChecks(
      checker
        ?? SocketChecker(
          path: settings.check.socket, connector: SocketConnector(), scheduler: scheduler,
          timeout: settings.check.timeout),
      scheduler: scheduler)
    self.radio = radio
    self.scheduler = scheduler
    self.settings = settings
    engine = VerifierEngine(configuration: settings.engine, random: random)
    journal = TransferJournal(perPeer: settings.linesPerPeer)
    transfers = TransferList(
      limit: settings.keptTransfers, scheduler: scheduler, numbers: numbers, clock: self.vault.clock)
    self.vault.attach(
      transfers, changed: { [weak self] in self?.changed() }, restored: { [weak self] in self?.restored($0) })
    transfers.observe(
      added: { [weak self] transfer in
        transfer.onChange { transfer in
          if transfer.text == nil { self?.checks.remove(transfer) }
          self?.history.note(transfer)
          self?.measureRoom()
        }
      },
      removed: { [weak self] transfer in
        self?.checks.remove(transfer)
        self?.journal.forget(transfer.number)
        self?.history.forget(transfer.number)
        self?.measureRoom()
      })
    checks.observe(
      trouble: { [weak self] in self?.changed() }, returned: { [weak self] in self?.checkerReturned() })
    applyCheckPolicy()
    measureRoom()
  }

  // MARK: For the host

  public var state: State {
    guard engine.isStarted else { return .stopped }
    guard visitors == 0 else { return .serving }
    return room.isNone ? .full : .waiting
  }

  /// Number of wallets that have a session now.
  public var visitors: Int { engine.visitors.count }

  /// Problem of storing credentials and remedy, for people; empty if there is none.
  public var storage: String {
    if let trouble = vault.trouble { return trouble.sentence }
    return capacity.load.sentence
  }

  /// Text of the QR code, in the form of the first dialect. Empty while no wallet is invited: the verifier is stopped,
  /// the radio does not work, or there is no capacity for a credential.
  public var connectionURI: String {
    guard radio.status.state != .waiting else { return "" }
    let form = settings.dialects.first?.invitationForm ?? .uri
    return engine.invitation?.text(as: form) ?? ""
  }

  public var counters: VerifierEngine.Counters { engine.counters }

  /// Registers observers. `changed` is called after each change of state, URI or counters, and `received` with each
  /// transfer whose credential has arrived. `checked` is called with each transfer that has a verdict of the checker,
  /// and `refused` for refused phones, at most `refusalsPerMinute` times per code.
  public func observe(
    changed: @escaping @LoopActor () -> Void, received: @escaping @LoopActor (Transfer) -> Void,
    checked: @escaping @LoopActor (Transfer) -> Void = { _ in },
    refused: @escaping @LoopActor (WalletRefusal) -> Void = { _ in }
  ) {
    changes.addForGood { changed() }
    receptions.addForGood(received)
    verdicts.addForGood(checked)
    refusals.addForGood(refused)
  }

  /// Maximum number of refusals of one code that are announced in a minute.
  nonisolated static let refusalsPerMinute = 12

  func announce(_ refusal: WalletRefusal) {
    if announcedRefusals.allow(refusal.code, at: scheduler.now) { refusals.call(refusal) }
  }

  /// Handles a restored credential without a verdict, possibly long after the start. Programs are notified of it as of
  /// a new credential.
  private func restored(_ transfer: Transfer) {
    receptions.call(transfer)
    if transfer.check == .none { check(transfer) }
    switch settings.decision {
    case .accept: _ = decide(transfer, accepted: true)
    case .check: decideByVerdict(transfer)
    case .client: break
    }
  }

  /// Starts to wait for wallets, unless started.
  ///
  /// - Returns: the connection URI.
  public func start() -> String {
    guard state == .stopped else { return connectionURI }
    server = radio.serve(application, delegate: self)
    statusWatch = radio.onStatus { [weak self] _ in self?.changed() }
    Log.shared.notice(
      "Waiting for wallets as \(settings.engine.name)", id: .verifierStarted, .protocolName("tuvali"))
    handle(.start)
    return connectionURI
  }

  /// Stops advertising; transfers in progress fail.
  public func stop() {
    guard state != .stopped else { return }
    handle(.stop)
    server?.close()
    server = nil
    statusWatch = nil
    addresses = [:]
    Log.shared.notice("No longer waiting for wallets", id: .verifierStopped, .protocolName("tuvali"))
  }

  /// Applies settings that can change at run time, for later sessions.
  public func apply(_ settings: Settings) {
    let dialects = self.settings.dialects
    self.settings = settings
    self.settings.dialects = dialects
    engine.configuration = settings.engine
    transfers.limit = settings.keptTransfers
    applyCheckPolicy()
    measureRoom()
    journal.perPeer = settings.linesPerPeer
    changed()
  }

  /// Records a verdict, and notifies the wallet if it is connected. A rejected credential is erased at once, an
  /// accepted one once it is fetched.
  ///
  /// - Parameter then: called when the verdict is durable, or when the disk fails, which the store reports.
  /// - Returns: false if there is no credential to judge, or it was judged before.
  public func decide(
    _ transfer: Transfer, accepted: Bool, then: @escaping @LoopActor () -> Void = {}
  ) -> Bool {
    guard transfer.state == .received else { return false }
    let link = link(of: transfer)
    sentStatus = nil
    if let link { handle(.decided(link, accepted: accepted)) }
    let isSent = link != nil && sentStatus == link
    let isWanted = accepted && !transfer.wasTaken
    if !isWanted { transfer.drop() }
    transfer.decide(accepted: accepted, isSent ? .sent : .peerGone)
    if isWanted { vault.accept(transfer, then: then) } else { vault.remove(transfer, then: then) }
    // Verdicts of local programs are always written. Phones determine how often the service itself accepts.
    guard settings.decision == .client || journal.writes(transfer.number) else { return true }
    writeLateStart(transfer)
    let verdict: String = accepted ? "accepted" : "rejected"
    Log.shared.info("Credential \(verdict)", id: .transferDecided, .transfer("\(transfer.number)"))
    return true
  }

  /// Records that a program has fetched the credential of a transfer. An accepted one is erased.
  public func taken(_ transfer: Transfer) {
    transfer.take()
    guard transfer.state == .accepted else { return }
    transfer.drop()
    vault.remove(transfer)
    measureRoom()
  }

  /// Ends the link of a transfer.
  ///
  /// - Returns: false if there is none.
  public func disconnect(_ transfer: Transfer) -> Bool {
    guard let link = link(of: transfer) else { return false }
    handle(.dismissed(link))
    return true
  }

  /// Link of a transfer whose wallet is being served; nil if it has ended.
  private func link(of transfer: Transfer) -> LinkID? { visits.first { $0.value === transfer }?.key }

  // MARK: Capacity

  /// Number and size of the stored credentials, and the capacity that is left.
  private var capacity: CredentialCapacity {
    CredentialCapacity(of: transfers.transfers, settings, bytes: vault.settings.maximumBytes)
  }

  private var room: VerifierEngine.Room { capacity.room }

  /// Reports changed capacity to the engine.
  func measureRoom() {
    let capacity = capacity
    if capacity.load.kind != knownLoad {
      let before = knownLoad
      knownLoad = capacity.load.kind
      log(capacity.load, after: before)
      changed()
    }
    let room = capacity.room
    guard room != knownRoom else { return }
    let wasNone = knownRoom?.isNone ?? false
    knownRoom = room
    handle(.room(room))
    // If the verifier is started, the changed invitation causes a notification.
    if room.isNone != wasNone, !engine.isStarted { changed() }
  }

  // MARK: The engine

  private func handle(_ event: VerifierEngine.Event) {
    perform(engine.handle(event, at: scheduler.now))
    afterEvent()
  }

  private func afterEvent() {
    timer.set(engine.deadline)
    // A person may choose a card for minutes, which needs no radio inhibit.
    if engine.slotsInUse == 0 { quiet = nil } else if quiet == nil { quiet = radio.askForQuiet() }
  }

  /// Performs the actions of the engine in order.
  private func perform(_ actions: [VerifierEngine.Action]) {
    for action in actions {
      switch action {
      case .advertise(let invitation): advertise(invitation)
      case .stopAdvertising: advertisements = []
      case .notify(let link, let characteristic, let dialect, let value):
        let delivery = server?.notify(value, of: dialect.id(of: characteristic), to: .link(link))
        if characteristic == .verificationStatus, delivery?.accepted == [link] { sentStatus = link }
      case .cut(let link): server?.disconnect(link)
      case .unseal(let link, let job):
        scheduler.offload({ job.run() }, then: { [weak self] in self?.handle(.unsealed(link, $0)) })
      case .deliver(let link, let credential): keep(credential, from: link)
      case .tell(let link, let notice): tell(notice, of: link)
      }
    }
    if !actions.isEmpty { changed() }
  }

  private func advertise(_ invitation: Invitation) {
    // The old advertisements are removed first, to free their slots. The radio applies the changes of one loop
    // iteration together.
    advertisements = []
    advertisements = settings.dialects.compactMap { dialect in
      do throws(RadioError) {
        return try radio.advertise(
          dialect.advertisement(for: invitation, every: settings.advertisingInterval), Dialect.advertisingTerms,
          for: server)
      } catch {
        Log.shared.error("The invitation is not advertised: \(error)", .error(error), .dialect(dialect.name.rawValue))
        return nil
      }
    }
  }

  private func keep(_ credential: [UInt8], from link: LinkID) {
    guard let transfer = visits[link] else { return }
    guard transfers.waitingCredentials < settings.keptTransfers else {
      return refuse(link, "There is no capacity for another credential.")
    }
    vault.put(credential, of: transfer) { [weak self] error in
      guard let self else { return }
      if let error { return refuse(link, error.sentence) }
      // If the link has ended meanwhile, the wallet was not notified of success and will retry.
      guard visits[link] === transfer, !transfer.state.isEnd else { return vault.remove(transfer) }
      let isProvisional = !capacity.mayKeepUnjudged(credential.count)
      transfer.receive(credential, isProvisional: isProvisional)
      measureRoom()
      handle(.kept(link, nil, isProvisional: isProvisional))
    }
  }

  /// Reports to the engine that there is no capacity for a received credential.
  private func refuse(_ link: LinkID, _ why: String) {
    storeFull += 1
    handle(.kept(link, TuvaliError(.verifierUnknown, .noCapacity, why)))
  }

  func changed() { changes.call() }
}

extension VerifierService: GATTServerDelegate {
  public func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {
    let ofPeer = addresses.values.count { $0 == address }
    guard addresses.count < settings.links, ofPeer < settings.linksPerPeer else {
      refusedLinks += 1
      server?.disconnect(link)
      return
    }
    addresses[link] = address
    handle(.linkOpened(link, at: since, isDistrusted: lostPlaces.contains(address, at: scheduler.now)))
  }

  public func linkChanged(_ link: LinkID, mtu: Int) {
    handle(.linkChanged(link, mtu: mtu))
    showFigures(of: link)
  }

  public func written(
    _ value: [UInt8], to id: CharacteristicID, on link: LinkID
  ) throws(ATTError) {
    guard let dialect = settings.dialects.first(where: { $0.service == id.service }),
      let characteristic = dialect.characteristic(for: id.characteristic)
    else { throw .writeNotPermitted }
    let (answer, actions) = engine.write(value, to: characteristic, of: dialect, on: link, at: scheduler.now)
    perform(actions)
    afterEvent()
    showFigures(of: link)
    switch answer {
    case .accepted: return
    case .refused(.full): throw .noCapacity
    case .refused: throw .busy
    }
  }

  public func linkClosed(_ link: LinkID) {
    handle(.linkClosed(link))
    addresses[link] = nil
  }

  private var application: GATTApplication {
    GATTApplication(services: settings.dialects.map(\.gattService), wantsFastLinks: true)
  }
}

extension VerifierService {
  /// Amounts of the state for connected peers. All of them are 0 when no link is up.
  struct Held: Hashable {
    var links = 0
    var waitingLinks = 0
    var turnedDownLinks = 0
    var visits = 0
    var deadlines = 0
  }

  var held: Held {
    Held(
      links: addresses.count, waitingLinks: engine.waitingLinks, turnedDownLinks: engine.turnedDownLinks,
      visits: engine.visitors.count, deadlines: engine.linkDeadline == nil ? 0 : 1)
  }
}

/// Peers whose sessions have failed recently. No session is evicted in favour of such a peer. Otherwise an attacker
/// that holds unused slots could evict its own sessions repeatedly, and each time invalidate the QR code that another
/// person is about to scan.
///
/// At `limit` peers, the oldest entry is dropped.
struct FailedSessionPeers {
  static let memory = Duration.seconds(300)
  static let limit = 256

  private var failures: [BluetoothAddress: Instant] = [:]

  /// Number of stored peers, including expired entries.
  var count: Int { failures.count }

  mutating func note(_ peer: BluetoothAddress, at now: Instant) {
    failures[peer] = now
    guard failures.count > Self.limit, let first = failures.min(by: { $0.value < $1.value }) else { return }
    failures[first.key] = nil
  }

  func contains(_ peer: BluetoothAddress, at now: Instant) -> Bool {
    failures[peer].map { now < $0.advanced(by: Self.memory) } ?? false
  }
}

/// Reason why a phone was refused, for the person at the screen. It does not identify the phone.
public struct WalletRefusal: Hashable, Sendable {
  /// Stable code: `wrongCode`, `busy` or `full`.
  public let code: String
  /// Sentence about the refusal, with what the person should do.
  public let sentence: String

  /// Makes the refusal for the error of a session; nil if the verifier did not refuse the wallet.
  init?(_ error: TuvaliError, _ settings: VerifierService.Settings) {
    switch error.reason {
    case .wrongCode: self.init(.wrongCode, settings)
    case .busy: self.init(.busy, settings)
    case .noCapacity: self.init(.full, settings)
    default: return nil
    }
  }

  init(_ reason: VerifierEngine.Refusal, _ settings: VerifierService.Settings) {
    code = reason.rawValue
    sentence =
      switch reason {
      case .wrongCode: "A phone used a code that is no longer shown. Scan the code that is shown now."
      case .busy: "A phone found every session slot or link in use. Try again in a moment."
      case .full: "A phone was refused because there is no capacity for another credential. Ask the operator."
      }
  }
}
