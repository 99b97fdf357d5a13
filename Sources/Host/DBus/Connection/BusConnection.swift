import Common
import Journal
import Loop

/// A connection to a bus that reconnects by itself.
///
/// After `connect` it is restored until `close`. When the bus disconnects, pending calls fail, and the connection
/// retries. It then requests its name, adds its match rules, and looks up names again. Exported objects and
/// subscriptions persist.
@LoopActor
public final class BusConnection {
  /// The state of the connection; `onState` reports each change.
  public private(set) var state = BusState.connecting
  /// The objects that other programs can call here.
  public let objects: ObjectTree

  let limits: BusLimits
  let scheduler: any Scheduler
  let pending: PendingCalls
  private(set) var transport: Transport?
  private(set) lazy var rules = MatchRules { [weak self] in self?.sendRule($0, $1) }
  private(set) lazy var names = NameTracker(self)
  private(set) lazy var signals = SignalRouter(self)
  private(set) lazy var credentials = CredentialsCache(self)

  private let address: BusAddress
  private let purpose: String
  private var wantedName: String?
  private var nameWatch: Registration?
  private var retry: Registration?
  private var backoff = BusConnection.shortestBackoff
  private var wasLost = false
  private let stateObservers = Observers<BusState>()
  /// The unique name from the bus, while connected: `:1.42`.
  public private(set) var uniqueName: String?

  private static let shortestBackoff = Duration.milliseconds(100)
  private static let longestBackoff = Duration.seconds(5)
  private static let refusedNameInterval = Duration.seconds(1)
  private static let helloTimeout = Duration.seconds(25)

  /// - Parameter purpose: the purpose of a program's second connection, in the journal after "the connection to the bus": ` for the radio`.
  public init(
    address: BusAddress, scheduler: any Scheduler = EventLoop.shared, limits: BusLimits = BusLimits(),
    purpose: String = ""
  ) {
    self.address = address
    self.purpose = purpose
    self.scheduler = scheduler
    self.limits = limits
    pending = PendingCalls(scheduler)
    objects = ObjectTree()
    objects.connection = self
  }

  deinit {
    let (transport, pending) = (transport, pending)
    EventLoop.shared.soon {
      transport?.close()
      pending.failAll(.disconnected("The connection to the bus was dropped."))
    }
  }

  // MARK: State

  /// Connects, and stays connected until `close()`. `onState` reports what follows.
  ///
  /// - Parameter name: a well-known name to own. The connection never enters the bus's queue for it. While another
  ///   program owns the name, the state is `.nameUnavailable`, and the name is requested again when it is free. If the
  ///   bus refuses the name, it is requested every second.
  public func connect(name: String? = nil) {
    guard transport == nil, retry == nil else { return }
    wantedName = name
    open()
  }

  /// Ends the connection; pending calls fail.
  public func close() {
    guard state != .closed else { return }
    retry = nil
    detach(.disconnected("The connection to the bus was closed."), state: .closed)
  }

  /// Calls `handler` with each new state for the lifetime of the registration.
  public func onState(_ handler: @escaping @LoopActor (BusState) -> Void) -> Registration {
    stateObservers.add(handler)
  }

  private func enter(_ state: BusState) {
    guard self.state != state else { return }
    self.state = state
    // An observer may cause the next state, which is reported to all observers immediately.
    stateObservers.call(state, while: { self.state == state })
  }

  // MARK: Connecting and disconnecting

  private func open() {
    retry = nil
    enter(.connecting)
    do throws(DBusError) {
      let transport = try Transport(address.string, scheduler: scheduler, limits: limits)
      self.transport = transport
      transport.onMessage = { [weak self] in self?.receive($0) }
      transport.onLost = { [weak self] in self?.lost(.disconnected("The bus closed the connection.")) }
      callBus("Hello", timeout: Self.helloTimeout) { [weak self, weak transport] result in
        guard let self, let transport, self.transport === transport else { return }
        greeted(result)
      }
    } catch {
      lost(error)
    }
  }

  private func greeted(_ result: Result<[DBusValue], DBusError>) {
    switch result {
    case .success(let values):
      guard let name = values.first?.asString else { return lost(.protocolError("The bus gave no name.")) }
      uniqueName = name
      transport?.setUniqueName(name)
      rules.resend()
      names.askAll()
      requestName()
    case .failure(let error):
      lost(error)
    }
  }

  private func requestName() {
    guard let wantedName else { return connected() }
    guard Validity.isBusName(wantedName) else {
      return enter(.nameUnavailable(.invalidArgs("\(wantedName.debugDescription) is not a bus name.")))
    }
    // 2: replace an owner that allows it; 4: do not enter the queue.
    let flags: UInt32 = 2 | 4
    callBus("RequestName", [.string(wantedName), .uint32(flags)]) { [weak self] in self?.nameAnswered(wantedName, $0) }
  }

  private func nameAnswered(_ name: String, _ result: Result<[DBusValue], DBusError>) {
    guard uniqueName != nil else { return }
    switch result {
    case .success(let values):
      // 1: this connection owns it now; 4: it already owned it; 3: another program owns it.
      if [1, 4].contains(values.first?.asUInt32) {
        connected()
      } else {
        enter(.nameUnavailable(.busy("Another program owns the bus name \(name): busctl status \(name) names it.")))
        awaitName(name)
      }
    case .failure(let error):
      nameWatch = nil
      // The bus may permit it later, because it reloads its policy while it runs.
      retry = scheduler.schedule(after: Self.refusedNameInterval) { [weak self] in
        self?.retry = nil
        self?.requestName()
      }
      enter(.nameUnavailable(error))
    }
  }

  private func awaitName(_ name: String) {
    guard nameWatch == nil else { return }
    nameWatch = names.watch(name) { [weak self] owner in
      guard let self, owner == nil, case .nameUnavailable = state else { return }
      requestName()
    }
  }

  private func connected() {
    guard let uniqueName else { return }
    nameWatch = nil
    retry = nil
    backoff = Self.shortestBackoff
    if wasLost { Log.shared.notice("The connection to the bus\(purpose) is back", id: .busBack) }
    wasLost = false
    enter(.connected(uniqueName: uniqueName))
  }

  private func lost(_ error: DBusError) {
    guard state != .closed else { return }
    if !wasLost { Log.shared.warning("The connection to the bus\(purpose) is lost: \(error)", id: .busLost) }
    wasLost = true
    retry = scheduler.schedule(after: backoff) { [weak self] in self?.open() }
    backoff = min(backoff * 2, Self.longestBackoff)
    detach(error, state: .lost(error))
  }

  private func detach(_ error: DBusError, state: BusState) {
    transport?.close()
    transport = nil
    uniqueName = nil
    nameWatch = nil
    enter(state)
    pending.failAll(error)
    names.forgetAll()
    credentials.forgetKnown()
  }

  // MARK: Receiving

  private func receive(_ message: Message) {
    switch message.kind {
    case .methodReturn, .error: pending.complete(message)
    case .signal: receive(signal: message)
    case .methodCall:
      guard let transport else { return }
      objects.receive(message, Answer(to: message, over: transport, of: self))
    }
  }

  private func receive(signal: Message) {
    if signal.sender == Bus.name, signal.interface == Bus.interface {
      if signal.member == "NameOwnerChanged" { names.ownerChanged(signal) }
      if signal.member == "NameLost" { nameLost(signal.arguments.first?.asString) }
    }
    // This process already knows the content of its own signals.
    if signal.sender != uniqueName { signals.dispatch(signal) }
  }

  private func nameLost(_ name: String?) {
    guard let name, name == wantedName, case .connected = state else { return }
    enter(.nameUnavailable(.busy("The bus name \(name) was taken away.")))
    awaitName(name)
  }

  private func sendRule(_ method: String, _ rule: String) {
    guard uniqueName != nil else { return }
    callBus(method, [.string(rule)]) { result in
      guard case .failure(let error) = result, !error.is(.disconnected) else { return }
      Log.shared.warning("The bus refuses a match rule: \(error)")
    }
  }
}
