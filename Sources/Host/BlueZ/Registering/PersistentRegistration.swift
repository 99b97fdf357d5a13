import Common
import DBus
import Journal
import Loop

/// A persistent registration of an object, or a discovery, with bluetoothd. It is repeated after a refusal, after a
/// restart of bluetoothd, and after the return of the adapter.
@LoopActor
final class PersistentRegistration {
  enum Kind: Sendable { case application, advertisement, discovery, profile }

  /// The object's path; a discovery has none.
  let path: ObjectPath

  private let kind: Kind
  private let bus: BusConnection
  private let attempts: Attempts
  /// Arguments of the D-Bus call after the object's path; nil: the arguments that `kind` gives.
  private let arguments: [DBusValue]?
  private let willRegister: @LoopActor () -> Void
  private let asksForLess: @LoopActor (DBusError) -> Bool
  /// The adapter on which bluetoothd may have the registration from an earlier attempt.
  private var former: Place?

  nonisolated static let timeLimit = Duration.seconds(10)

  /// - Parameters:
  ///   - arguments: arguments of the D-Bus call after the object's path; nil: the arguments that `kind` gives.
  ///   - willRegister: called before each attempt.
  ///   - asksForLess: called when bluetoothd refuses; returns whether the object now requests less, and is registered
  ///     again immediately.
  ///   - onRegistered: called when `isRegistered` changed; not by `close`.
  ///   - onChange: called when `problem` changed.
  init(
    _ kind: Kind, _ path: ObjectPath, bus: BusConnection, scheduler: any Scheduler,
    arguments: [DBusValue]? = nil, willRegister: @escaping @LoopActor () -> Void = {},
    asksForLess: @escaping @LoopActor (DBusError) -> Bool = { _ in false },
    onRegistered: @escaping @LoopActor (Bool) -> Void = { _ in }, onChange: @escaping @LoopActor () -> Void
  ) {
    self.kind = kind
    self.path = path
    self.bus = bus
    self.arguments = arguments
    self.willRegister = willRegister
    self.asksForLess = asksForLess
    attempts = Attempts(scheduler: scheduler, pauses: kind.pauses, onChange: onChange)
    attempts.onDone = onRegistered
    attempts.begin = { [weak self] in self?.begin() }
  }

  var isRegistered: Bool { attempts.isDone }
  var isUnderWay: Bool { attempts.isUnderWay }

  /// The reason why the object is not registered, and what to do; nil if it is registered or the registration is under
  /// way.
  var problem: String? { attempts.problem }

  // MARK: Requests

  /// Registers the object on the adapter `place` from now on; nil if there is none.
  func aim(at place: Place?) { attempts.aim(at: place) }

  /// Removes the registration and repeats it; a waiting attempt begins immediately.
  func renew() { attempts.renew() }

  /// Handles bluetoothd's report that it removed the registration.
  func released() {
    former = nil
    attempts.undone()
  }

  /// Removes the registration permanently.
  ///
  /// - Parameter then: called when bluetoothd has answered; immediately if there is nothing to remove.
  func close(then: @escaping @LoopActor () -> Void = {}) {
    guard attempts.close(), let former else { return then() }
    call(former, kind.unregister, kind.unregisterArguments(path)) { [kind] result in
      if case .failure(let error) = result { Log.shared.debug("bluetoothd answered \(kind.unregister) with \(error)") }
      then()
    }
  }

  // MARK: Attempts

  private func begin() {
    guard let place = attempts.place else { return }
    guard let former, former.owner == place.owner else { return register() }
    // The result is ignored: a registration that does not exist need not be removed.
    let cleared: Answer = attempts.inAttempt { [weak self] _ in
      self?.former = nil
      self?.register()
    }
    call(former, kind.unregister, kind.unregisterArguments(path), then: cleared)
  }

  private func register() {
    guard let place = attempts.place else { return }
    attempts.catchUp()
    willRegister()
    former = place
    let answered = attempts.inAttempt { [weak self] in self?.answered($0) }
    let parameters = arguments.map { [.objectPath(path)] + $0 } ?? kind.registerArguments(path)
    call(place, kind.register, parameters, then: answered)
  }

  private func answered(_ result: Result<[DBusValue], DBusError>) {
    guard case .failure(let error) = result else { return attempts.succeeded() }
    Log.shared.debug("bluetoothd answered \(kind.register) with \(error)")
    // The registration is ours, from an attempt whose answer was lost.
    if error.name == kind.isThereAlready, attempts.isFresh { return attempts.failedOnce() }
    // After other errors bluetoothd does not have the registration.
    if !error.is(.timeout), error.name != kind.isThereAlready { former = nil }
    if asksForLess(error) { return attempts.failedOnce() }
    // The bus reports that bluetoothd is stopping.
    let isGoing = error.is(.noReply) || error.is(.serviceUnknown) || error.is(.disconnected)
    let adapter = attempts.place?.adapter.lastElement ?? ""
    attempts.failed(isGoing ? nil : RegistrationWords(kind, adapter).sentence(for: error))
  }

  private typealias Answer = @LoopActor (Result<[DBusValue], DBusError>) -> Void

  private func call(
    _ place: Place, _ method: String, _ arguments: [DBusValue], then: @escaping Answer
  ) {
    bus.call(
      place.owner, kind == .profile ? BlueZName.root : place.adapter, kind.manager, method, arguments,
      timeout: Self.timeLimit, then: then)
  }
}

extension PersistentRegistration.Kind {
  var manager: String {
    switch self {
    case .application: BlueZName.gattManager
    case .advertisement: BlueZName.advertisingManager
    case .discovery: BlueZName.adapter
    case .profile: BlueZName.profileManager
    }
  }

  var register: String {
    switch self {
    case .application: "RegisterApplication"
    case .advertisement: "RegisterAdvertisement"
    case .discovery: "StartDiscovery"
    case .profile: "RegisterProfile"
    }
  }

  var unregister: String {
    switch self {
    case .application: "UnregisterApplication"
    case .advertisement: "UnregisterAdvertisement"
    case .discovery: "StopDiscovery"
    case .profile: "UnregisterProfile"
    }
  }

  func registerArguments(_ path: ObjectPath) -> [DBusValue] {
    self == .discovery ? [] : [.objectPath(path), .options([:])]
  }

  func unregisterArguments(_ path: ObjectPath) -> [DBusValue] {
    self == .discovery ? [] : [.objectPath(path)]
  }

  /// Pauses between attempts. After bluetoothd was killed, the kernel continues its discovery until the 10.24 s are
  /// over, and refuses a new one meanwhile. A peer whose link ended with that bluetoothd waits to be found again.
  var pauses: Backoff {
    self == .discovery ? Backoff(upTo: .seconds(2), forAttempts: 8) : Backoff()
  }

  /// The D-Bus error that means that our earlier registration still exists.
  var isThereAlready: String {
    self == .discovery ? BlueZName.Failure.inProgress : BlueZName.Failure.alreadyExists
  }
}

/// Sentences for a person about a refused registration: bluetoothd's message, and what to do.
@LoopActor
struct RegistrationWords {
  private let kind: PersistentRegistration.Kind
  private let adapter: String

  /// The adapter has no free advertising instance.
  nonisolated static let noRoom =
    "The adapter has no capacity for another advertisement: end one of another program, or switch a service off."

  init(_ kind: PersistentRegistration.Kind, _ adapter: String) {
    self.kind = kind
    self.adapter = adapter
  }

  func sentence(for error: DBusError) -> String {
    if error.is(.timeout) {
      return
        "bluetoothd did not answer \(kind.register) within \(PersistentRegistration.timeLimit.components.seconds) s."
        + " If this persists: systemctl restart bluetooth."
    }
    if error.is(.accessDenied) {
      return "The bus does not permit this program to \(act): is its D-Bus policy installed? (\(error.message))"
    }
    return "bluetoothd refuses to \(act) on \(adapter) (\(error.name.lastPart): \(error.message)). \(advice(error))"
  }

  private var act: String {
    switch kind {
    case .application: "serve GATT"
    case .advertisement: "advertise"
    case .discovery: "scan"
    case .profile: "accept streams"
    }
  }

  private func advice(_ error: DBusError) -> String {
    switch (kind, error.name) {
    case (.advertisement, BlueZName.Failure.notPermitted):
      Self.noRoom
    case (.profile, BlueZName.Failure.notPermitted): "Another program has registered the profile: end that program."
    case (.application, kind.isThereAlready), (.advertisement, kind.isThereAlready):
      "The service removes the registration and repeats it."
    default: "The service tries again; journalctl -u bluetooth may have the cause."
    }
  }
}

extension String {
  /// Returns the text after the last full stop; the whole text if it has none.
  fileprivate var lastPart: Substring { split(separator: ".").last ?? self[...] }
}
