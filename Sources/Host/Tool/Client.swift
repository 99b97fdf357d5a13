import CommandLine
import Common
import DBus
import Loop

/// A daemon that the tool calls.
public struct ToolTarget: Hashable, Sendable {
  /// The daemon's name on the bus, unless an option gives another one.
  public let busName: String
  /// The daemon's systemd unit, for advice.
  public let unit: String

  public init(busName: String, unit: String) { (self.busName, self.unit) = (busName, unit) }

  public static let earshotd = ToolTarget(busName: "org.earshot", unit: "earshotd")
}

/// The tool's access to the service's objects on the bus.
@LoopActor
public final class Client {
  /// Properties of an object, by interface and name.
  public typealias Properties = [String: [String: DBusValue]]

  public nonisolated static let manager: ObjectPath = "/org/earshot"
  public nonisolated static let managerInterface = "org.earshot.Manager1"

  public let bus: BusConnection
  /// The service's bus name.
  public let service: String
  let timeout: Duration

  private let unit: String

  init(_ line: ParsedCommand, target: ToolTarget = .earshotd) {
    bus = BusConnection(address: BusAddress(words: line.value("bus") ?? "system"))
    service = line.value("bus-name") ?? target.busName
    unit = target.unit
    timeout = line.seconds("timeout") ?? .seconds(25)
  }

  public func connect() async throws(Failure) {
    bus.connect()
    do throws(DBusError) {
      try await bus.ready()
    } catch {
      throw Failure(.noBus, "\(error.message) Is the bus running? --bus selects another bus.")
    }
  }

  /// The failure for the error of a call, with what to do about it.
  func failure(_ error: DBusError) -> Failure { Failure(error, service: service, unit: unit) }

  /// Whether a program owns the service's name on the bus.
  public func isRunning() async -> Bool { await bus.hasOwner(service) }

  /// Calls a method of the service.
  ///
  /// - Parameters:
  ///   - feature: the feature that provides the object, if the configuration can switch it off.
  ///   - limit: maximum time for the answer, if that is longer than `--timeout`.
  @discardableResult
  public func call(
    _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = [],
    of feature: Feature? = nil, timeout limit: Duration? = nil
  ) async throws(Failure) -> [DBusValue] {
    do throws(DBusError) {
      return try await bus.call(
        service, path, interface, method, arguments, timeout: max(timeout, limit ?? .zero))
    } catch {
      if let feature, error.name == DBusError.Name.unknownObject.rawValue { throw feature.isOff }
      throw failure(error)
    }
  }

  /// Reads a property.
  ///
  /// - Parameter feature: as in `call`.
  public func property(
    _ path: ObjectPath, _ interface: String, _ name: String, of feature: Feature? = nil
  ) async throws(Failure) -> DBusValue {
    let values = try await call(
      path, "org.freedesktop.DBus.Properties", "Get", [.string(interface), .string(name)], of: feature)
    return values.first?.unwrapped ?? .string("")
  }

  /// The properties of an interface that this program may read.
  ///
  /// - Parameter feature: as in `call`.
  public func properties(
    _ path: ObjectPath, _ interface: String, of feature: Feature? = nil
  ) async throws(Failure) -> [String: DBusValue] {
    let values = try await call(
      path, "org.freedesktop.DBus.Properties", "GetAll", [.string(interface)], of: feature)
    return values.first?.asDictionary ?? [:]
  }

  /// All objects of the service that this program may read, by path.
  public func objects() async throws(Failure) -> [String: Properties] {
    let values = try await call(Self.manager, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    var objects = Self.objects(values)
    // A manager lists the objects below it, but not its own.
    objects[Self.manager.string] = [Self.managerInterface: try await properties(Self.manager, Self.managerInterface)]
    return objects
  }

  /// Asks the service to send this program signals about objects of the group, until the program ends. Call this before
  /// `objects()`, so that every later change of these objects is signalled.
  ///
  /// - Returns: false if the service is too old to send them, or already sends them to too many programs.
  @discardableResult
  public func watchGroup() async throws(Failure) -> Bool {
    do throws(DBusError) {
      _ = try await bus.call(service, Self.manager, Self.managerInterface, "Watch", [], timeout: timeout)
      return true
    } catch {
      switch DBusError.Name(rawValue: error.name) {
      case .unknownMethod?, .unknownInterface?, .limitExceeded?: return false
      default: throw failure(error)
      }
    }
  }

  /// Reads all objects, like `objects`.
  ///
  /// - Parameter then: called with the list, before any signal that the service sent after it. A program that handles
  ///   both misses no change.
  public func readObjects(then: @escaping @LoopActor (Result<[String: Properties], Failure>) -> Void) {
    let service = service
    let failure = self.failure
    func call(
      _ interface: String, _ method: String, _ arguments: [DBusValue],
      _ body: @escaping @LoopActor ([DBusValue]) -> Void
    ) {
      bus.call(service, Self.manager, interface, method, arguments, timeout: timeout) { result in
        switch result {
        case .success(let values): body(values)
        case .failure(let error): then(.failure(failure(error)))
        }
      }
    }
    var manager: [String: DBusValue] = [:]
    // Changes that are signalled between the two answers are newer than the first answer.
    let changes = onSignal { message in
      guard message.path == Self.manager, let (interface, values) = message.changedProperties else { return }
      if interface == Self.managerInterface { manager.merge(values) { $1 } }
    }
    call("org.freedesktop.DBus.Properties", "GetAll", [.string(Self.managerInterface)]) { values in
      manager = values.first?.asDictionary ?? [:]
      call("org.freedesktop.DBus.ObjectManager", "GetManagedObjects", []) { values in
        changes.cancel()
        var objects = Self.objects(values)
        objects[Self.manager.string] = [Self.managerInterface: manager]
        then(.success(objects))
      }
    }
  }

  private static func objects(_ values: [DBusValue]) -> [String: Properties] {
    (values.first?.asDictionary ?? [:]).mapValues { interfaces in
      (interfaces.asDictionary ?? [:]).mapValues { $0.asDictionary ?? [:] }
    }
  }

  /// Calls `body` with every signal of the service from its object manager's path down, in order.
  public func onSignal(_ body: @escaping @LoopActor (Message) -> Void) -> Registration {
    bus.subscribe(SignalMatch(sender: service, pathNamespace: Self.manager), body)
  }
}

extension Message {
  /// The content of a `PropertiesChanged` signal: the interface, and the new values.
  public var changedProperties: (interface: String, values: [String: DBusValue])? {
    guard member == "PropertiesChanged", arguments.count == 3, let interface = arguments[0].asString,
      let values = arguments[1].asDictionary
    else { return nil }
    return (interface, values)
  }
}

/// Lets a command wait for selected signals of the service, with a time limit.
@LoopActor
public final class NewsOf {
  private let isMeant: @LoopActor (Message) -> Bool
  private var registration: Registration?
  private var hasNews = false
  private var waiter: CheckedContinuation<Void, Never>?
  private var timer: Registration?

  /// - Parameter isMeant: selects the signals that the command waits for.
  public init(_ client: Client, where isMeant: @escaping @LoopActor (Message) -> Bool) {
    self.isMeant = isMeant
    registration = client.onSignal { [weak self] in if self?.isMeant($0) == true { self?.wake() } }
  }

  /// Returns at the first of these signals since the last call, or after `limit`.
  public func next(within limit: Duration) async {
    if !hasNews {
      await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        waiter = continuation
        timer = EventLoop.shared.schedule(after: limit) { [weak self] in self?.wake() }
      }
    }
    (hasNews, timer) = (false, nil)
  }

  /// Ends the present wait, as the arrival of a signal does.
  public func wake() {
    hasNews = true
    waiter?.resume()
    waiter = nil
  }

  public func cancel() { registration = nil }
}
