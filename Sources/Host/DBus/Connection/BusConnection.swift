import Common
import Journal
import Loop

/// A connection to a bus that reconnects by itself.
///
/// After `connect` it is restored until `close`. When the bus disconnects, pending calls fail, and the connection
/// retries. It then requests its name, adds its match rules, and looks up names again. Exported objects and
/// subscriptions persist.
@LoopActor
public final class BusConnection: ObjectBus {
  /// The state of the connection; `onState` reports each change.
  public private(set) var state = BusState.connecting
  /// The objects that other programs can call here.
  public let objects: ObjectTree

  let limits: BusLimits
  let scheduler: any Scheduler
  let pending: PendingCalls
  private(set) var transport: Transport?
  /// Sends the answers to calls that arrived over `transport`.
  private(set) var answers: AnswerRoute?
  private(set) lazy var rules = MatchRules { [weak self] in self?.sendRule($0, $1) }
  private(set) lazy var names = NameTracker(self)
  private(set) lazy var signals = SignalRouter(self)
  private(set) lazy var credentials = CredentialsCache(self)

  private let address: BusAddress
  private let purpose: String
  private var wantedName: String?
  private var nameWatch: Registration?
  private var retry: Registration?
  private var backoff = Backoff(from: .milliseconds(100), upTo: .seconds(5))
  private var wasLost = false
  private let stateObservers = Observers<BusState>()
  /// The unique name from the bus, while connected: `:1.42`.
  public private(set) var uniqueName: String?

  private static let refusedNameInterval = Duration.seconds(1)
  private static let helloTimeout = Duration.seconds(25)

  /// - Parameter purpose: the purpose of a program's second connection, in the journal after "the connection to the
  ///   bus": ` for the radio`.
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
    objects.bus = self
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
      answers = AnswerRoute(transport, self)
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
      guard let name = values.first?.asString else { return lost(.protocolError("The bus assigned no unique name.")) }
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
      // The name is requested again, because the bus may reload a policy that permits it.
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
    backoff.reset()
    if wasLost { Log.shared.notice("The connection to the bus\(purpose) is back", id: .busBack) }
    wasLost = false
    enter(.connected(uniqueName: uniqueName))
  }

  private func lost(_ error: DBusError) {
    guard state != .closed else { return }
    if !wasLost { Log.shared.warning("The connection to the bus\(purpose) is lost: \(error)", id: .busLost) }
    wasLost = true
    retry = scheduler.schedule(after: backoff.next()) { [weak self] in self?.open() }
    detach(error, state: .lost(error))
  }

  private func detach(_ error: DBusError, state: BusState) {
    transport?.close()
    (transport, answers) = (nil, nil)
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
      guard let answers else { return }
      objects.receive(message, Answer(to: message, over: answers))
    }
  }

  private func receive(signal: Message) {
    if signal.sender == Bus.name, signal.interface == Bus.interface {
      if signal.member == "NameOwnerChanged" { names.ownerChanged(signal) }
      if signal.member == "NameLost" { nameLost(signal.arguments.first?.asString) }
    }
    // Signals that this process sent itself are not dispatched to its subscriptions.
    if signal.sender != uniqueName { signals.dispatch(signal) }
  }

  private func nameLost(_ name: String?) {
    guard let name, name == wantedName, case .connected = state else { return }
    enter(.nameUnavailable(.busy("This connection has lost the bus name \(name).")))
    awaitName(name)
  }

  private func sendRule(_ method: String, _ rule: String) {
    guard uniqueName != nil else { return }
    callBus(method, [.string(rule)]) { result in
      guard case .failure(let error) = result, !error.is(.disconnected) else { return }
      Log.shared.warning("The bus refuses a match rule: \(error)")
    }
  }

  // MARK: Calls, signals and names

  /// Calls a method of another program.
  ///
  /// - Parameters:
  ///   - timeout: time limit for the answer; the error is then `Timeout`.
  ///   - then: called once, later, on the loop: with the returned values, or with the error that was received or that
  ///     prevented the call.
  public func call(
    _ destination: String, _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = [],
    timeout: Duration = .seconds(25), then: @escaping @LoopActor (Result<[DBusValue], DBusError>) -> Void
  ) {
    guard pending.count < limits.pendingCalls else {
      return fail(.limitExceeded("The maximum of \(limits.pendingCalls) pending calls is reached."), then)
    }
    guard uniqueName != nil else { return fail(.disconnected("This program is not connected to the bus."), then) }
    send(.call(destination, path, interface, method, arguments), timeout, then)
  }

  /// Calls a method of another program and waits for the result.
  public func call(
    _ destination: String, _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = [],
    timeout: Duration = .seconds(25)
  ) async throws(DBusError) -> [DBusValue] {
    let result = await withCheckedContinuation { continuation in
      call(destination, path, interface, method, arguments, timeout: timeout) { continuation.resume(returning: $0) }
    }
    switch result {
    case .success(let values): return values
    case .failure(let error): throw error
    }
  }

  /// Sends a signal. Without a connection to the bus the signal is dropped: a program that connects later reads the
  /// properties.
  ///
  /// - Parameter destination: the name of the only connection that receives the signal, preferably a unique one, which
  ///   never changes its owner. Nil for every program that has subscribed to such signals.
  public func emit(
    _ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue] = [],
    to destination: String? = nil
  ) {
    guard uniqueName != nil, let transport else { return }
    do throws(DBusError) {
      _ = try transport.send(.signal(path, interface, signal, arguments, to: destination))
    } catch {
      Log.shared.warning("Signal \(signal) was not sent: \(error)")
    }
  }

  /// Calls `handler` with each matching signal, for the lifetime of the registration, including reconnections.
  ///
  /// For a well-known sender name only signals of its present owner match.
  public func subscribe(_ match: SignalMatch, _ handler: @escaping @LoopActor (Message) -> Void) -> Registration {
    signals.subscribe(match, handler)
  }

  /// Calls `handler` with the owner of `name` (a unique name, nil without an owner): once when it is known, then each
  /// time it changes. Without a bus no name has an owner.
  ///
  /// - Parameter hearsEachBus: whether the first result on each new bus is reported, even if the name again has no
  ///   owner.
  public func watchName(
    _ name: String, hearsEachBus: Bool = false, _ handler: @escaping @LoopActor (_ owner: String?) -> Void
  ) -> Registration {
    guard Validity.isBusName(name) else {
      Log.shared.error("\(name) is not a bus name and cannot be watched")
      return Registration {}
    }
    return names.watch(name, hearsEachBus: hearsEachBus, handler)
  }

  /// Whether a bus name has an owner now. False without a connection, too.
  public func hasOwner(_ name: String) async -> Bool {
    let answer = try? await call(Bus.name, Bus.path, Bus.interface, "NameHasOwner", [.string(name)])
    return answer?.first?.asBool ?? false
  }

  /// Asks the bus for the user, process and groups of a connection. The answer is cached until the name disappears.
  ///
  /// - Parameter sender: a message's sender, a unique name.
  public func credentials(
    of sender: String, then: @escaping @LoopActor (Result<Credentials, DBusError>) -> Void
  ) {
    credentials.get(sender, then: then)
  }

  func watchOwner(of name: String, _ handler: @escaping @LoopActor (String?) -> Void) -> Registration {
    names.watch(name, handler)
  }

  func knownCredentials(of sender: String) -> Credentials? { credentials.known(sender) }

  /// Waits until the connection is established and owns its name.
  ///
  /// - Throws: the reason why it is not established, as soon as it is known; the connection continues to retry.
  public func ready() async throws(DBusError) {
    if case .connecting = state { await nextState() }
    switch state {
    case .connected: return
    case .connecting: throw .disconnected("This program is not connected to the bus yet.")
    case .nameUnavailable(let error), .lost(let error): throw error
    case .closed: throw .disconnected("The connection to the bus is closed.")
    }
  }

  private func nextState() async {
    var registration: Registration?
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      registration = onState { _ in
        registration?.cancel()
        continuation.resume()
      }
    }
  }

  // MARK: Calls of the bus

  /// Calls the bus itself; possible before the bus has answered `Hello`.
  func callBus(
    _ method: String, _ arguments: [DBusValue] = [], timeout: Duration = .seconds(25),
    then: @escaping PendingCalls.Completion
  ) {
    send(.call(Bus.name, Bus.path, Bus.interface, method, arguments), timeout, then)
  }

  private func send(_ message: Message, _ timeout: Duration, _ then: @escaping PendingCalls.Completion) {
    guard let transport else { return fail(.disconnected("This program is not connected to the bus."), then) }
    do throws(DBusError) {
      let serial = try transport.send(message).serial
      pending.add(message, serial: serial, timeout: timeout, then: then)
    } catch {
      fail(error, then)
    }
  }

  private func fail(_ error: DBusError, _ then: @escaping PendingCalls.Completion) {
    EventLoop.shared.soon { then(.failure(error)) }
  }
}

/// The state of a connection to the bus.
public enum BusState: Hashable, Sendable {
  /// Not established yet; also before `connect` is called.
  case connecting
  /// Established, and owner of the requested name, if any.
  case connected(uniqueName: String)
  /// Established, but without the name: `Busy` if another program owns it (it is requested again when it is free),
  /// otherwise the bus's error.
  case nameUnavailable(DBusError)
  /// Disconnected; the connection retries.
  case lost(DBusError)
  /// Closed by `close()`.
  case closed
}

/// Sends the answers to calls over the transport on which they arrived.
@LoopActor
final class AnswerRoute: AnswerSender {
  private let transport: Transport
  private unowned let connection: BusConnection

  init(_ transport: Transport, _ connection: BusConnection) {
    self.transport = transport
    self.connection = connection
  }

  var isOpen: Bool { transport.isOpen }

  func send(_ message: Message) throws(DBusError) {
    let size = try transport.send(message).size
    if message.kind == .methodReturn { connection.objects.charge(message.destination, forBytes: size) }
  }

  /// Sends a return, and then asks the bus whether the caller is still connected. The bus handles the messages of a
  /// connection in order. If it reports, after the answer, that the caller is still connected, then it has written the
  /// answer to the caller's socket or has refused it. A refusal arrives as an error before that report: the caller
  /// accepts no descriptors, or does not read its messages.
  func deliver(_ message: Message, taken: @escaping @LoopActor () -> Void) throws(DBusError) {
    let (serial, size) = try transport.sendPrivate(message)
    let pending = connection.pending
    connection.objects.charge(message.destination, forBytes: size)
    pending.sent(answer: serial)
    connection.callBus("NameHasOwner", [.string(message.destination ?? "")]) { result in
      let isRefused = pending.settle(answer: serial)
      if isRefused { Log.shared.warning("The bus refused to deliver an answer; the caller can repeat the call") }
      if case .success(let values) = result, values.first?.asBool == true, !isRefused { taken() }
    }
  }
}
