import DBus
import Journal
import Loop

/// Something that bluetoothd does for us for as long as it is wanted, an object of ours that is registered or a discovery:
/// again after every refusal, after a restart of bluetoothd and the return of the adapter.
@LoopActor
final class KeptRegistration {
  enum Kind: Sendable { case application, advertisement, discovery }

  private enum State {
    /// There is nowhere to register it.
    case idle
    /// What may be registered from before is taken away first.
    case clearing
    case registering
    case registered
    /// It is tried again when the timer fires.
    case waiting(Registration)
    case closed
  }

  /// Of the object; a discovery has none.
  let path: ObjectPath
  /// Why it is not registered, and what to do; nil when it is, or when it is merely under way.
  private(set) var problem: String?

  private let kind: Kind
  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let onChange: @LoopActor () -> Void
  private let didRegister: @LoopActor () -> Void
  private let willRegister: @LoopActor () -> Void
  private var state = State.idle
  private var place: Place?
  /// Where bluetoothd may have it from before.
  private var left: Place?
  /// Answers to calls of an earlier attempt mean nothing any more.
  private var attempt = 0
  /// Asked for while an attempt was under way.
  private var wantsRenewal = false
  private var backoff = Backoff()

  nonisolated static let timeLimit = Duration.seconds(10)

  /// - Parameters:
  ///   - willRegister: called before each attempt.
  ///   - didRegister: called after each that succeeded.
  ///   - onChange: called when `problem` changed.
  init(
    _ kind: Kind, _ path: ObjectPath, bus: BusConnection, scheduler: any Scheduler,
    willRegister: @escaping @LoopActor () -> Void = {}, didRegister: @escaping @LoopActor () -> Void = {},
    onChange: @escaping @LoopActor () -> Void
  ) {
    self.kind = kind
    self.path = path
    self.bus = bus
    self.scheduler = scheduler
    self.willRegister = willRegister
    self.didRegister = didRegister
    self.onChange = onChange
  }

  var isRegistered: Bool {
    if case .registered = state { true } else { false }
  }

  // MARK: What is wanted

  /// Registers it at `place` from now on; nil when there is none.
  func aim(at place: Place?) {
    guard !isClosed, place != self.place else { return }
    self.place = place
    backoff.reset()
    show(nil)
    restart()
  }

  /// Takes it away and registers it again; an attempt that waits is made now.
  func renew() {
    switch state {
    case .registered, .waiting: restart()
    case .registering: wantsRenewal = true
    case .idle, .clearing, .closed: break
    }
  }

  /// bluetoothd said that it has taken it away.
  func released() {
    guard !isClosed else { return }
    left = nil
    guard place != nil else { return }
    attempt += 1
    wait()
  }

  /// Takes it away for good.
  func close() {
    guard !isClosed else { return }
    attempt += 1
    state = .closed
    if let left {
      call(left, kind.unregister, kind.unregisterArguments(path)) { [kind] result in
        guard case .failure(let error) = result else { return }
        Log.shared.debug("\(kind.unregister) was answered with \(error)")
      }
    }
  }

  private var isClosed: Bool {
    if case .closed = state { true } else { false }
  }

  // MARK: Attempts

  private func restart() {
    attempt += 1
    wantsRenewal = false
    if place == nil {
      state = .idle
    } else if let left, left.owner == place?.owner {
      clear(left)
    } else {
      register()
    }
  }

  /// Its answer does not matter: what is not there need not be taken away.
  private func clear(_ left: Place) {
    state = .clearing
    let attempt = attempt
    call(left, kind.unregister, kind.unregisterArguments(path)) { [weak self] _ in
      guard let self, self.attempt == attempt else { return }
      self.left = nil
      register()
    }
  }

  private func register() {
    guard let place else { return }
    willRegister()
    state = .registering
    left = place
    let attempt = attempt
    call(place, kind.register, kind.registerArguments(path)) { [weak self] result in
      guard let self, self.attempt == attempt else { return }
      answered(result)
    }
  }

  private func answered(_ result: Result<[DBusValue], DBusError>) {
    switch result {
    case .success:
      state = .registered
      backoff.reset()
      show(nil)
      didRegister()
    case .failure(let error):
      Log.shared.debug("\(kind.register) was answered with \(error)")
      if error.name == kind.isThereAlready, backoff.isFresh {
        // It is ours, from an attempt whose answer was lost.
        _ = backoff.next()
        return restart()
      }
      // Unless it may have it all the same.
      if !error.is(.timeout), error.name != kind.isThereAlready { left = nil }
      // That it is going away is told by the bus.
      if !error.is(.noReply), !error.is(.serviceUnknown), !error.is(.disconnected) {
        show(RegistrationWords(kind, place?.adapter.lastElement ?? "").sentence(for: error))
      }
      return wait()
    }
    if wantsRenewal { restart() }
  }

  private func wait() {
    state = .waiting(scheduler.schedule(after: backoff.next()) { [weak self] in self?.restart() })
  }

  private func show(_ problem: String?) {
    guard problem != self.problem else { return }
    self.problem = problem
    onChange()
  }

  private func call(
    _ place: Place, _ method: String, _ arguments: [DBusValue],
    then: @escaping @LoopActor (Result<[DBusValue], DBusError>) -> Void
  ) {
    bus.call(place.owner, place.adapter, kind.manager, method, arguments, timeout: Self.timeLimit, then: then)
  }
}

extension KeptRegistration.Kind {
  var manager: String {
    switch self {
    case .application: BlueZName.gattManager
    case .advertisement: BlueZName.advertisingManager
    case .discovery: BlueZName.adapter
    }
  }

  var register: String {
    switch self {
    case .application: "RegisterApplication"
    case .advertisement: "RegisterAdvertisement"
    case .discovery: "StartDiscovery"
    }
  }

  var unregister: String {
    switch self {
    case .application: "UnregisterApplication"
    case .advertisement: "UnregisterAdvertisement"
    case .discovery: "StopDiscovery"
    }
  }

  func registerArguments(_ path: ObjectPath) -> [DBusValue] {
    self == .discovery ? [] : [.objectPath(path), .options([:])]
  }

  func unregisterArguments(_ path: ObjectPath) -> [DBusValue] {
    self == .discovery ? [] : [.objectPath(path)]
  }

  /// The error that means that it is ours from before.
  var isThereAlready: String {
    self == .discovery ? BlueZName.Failure.inProgress : BlueZName.Failure.alreadyExists
  }
}
