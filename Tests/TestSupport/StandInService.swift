import DBus
import Loop
import Tool

/// A D-Bus service on a private bus that stands in for one of Earshot's services behind a command of the tool. It
/// records the calls.
@LoopActor
public final class StandInService {
  public let bus: PrivateBus
  private let connection: BusConnection
  private let manager: ObjectPath
  private var objects: [ObjectPath: ExportedObject] = [:]
  /// All calls with their arguments, in order.
  public private(set) var calls: [String] = []
  /// The error that answers all calls.
  public var refusal: DBusError?

  /// - Parameter manager: the path of the object manager.
  public init(manager: ObjectPath = Client.manager) throws {
    self.manager = manager
    bus = try PrivateBus()
    connection = BusConnection(address: .address(bus.address))
    connection.objects.exportManager(manager)
  }

  /// Connects, and requests the well-known name on the bus.
  public func begin(_ name: String = "org.earshot") async throws {
    connection.connect(name: name)
    try await connection.ready()
  }

  public func close() {
    connection.close()
    bus.stop()
  }

  /// Exports an object, in place of an earlier one with the same path.
  @discardableResult
  public func export(_ path: ObjectPath, _ interface: Interface) -> ExportedObject {
    let tree = connection.objects
    objects[path] = nil
    let object =
      path == manager
      ? tree.export(path, interfaces: [interface]) : tree.export(path, interfaces: [interface], manager: manager)
    objects[path] = object
    return object
  }

  /// Runs a command of the tool on this bus.
  public func run(_ part: ToolPart, _ command: String, _ words: [String], input: String) async -> ToolCall {
    await ToolCall.run(part, [command, "--bus", bus.address] + words, input: input)
  }

  /// Records a call, and refuses it if `refusal` is set.
  ///
  /// - Parameter subject: the object of the call, if its path does not say it.
  public func note(_ call: MethodCall, of subject: String? = nil) throws(DBusError) {
    let words = [call.member] + (subject.map { [$0] } ?? []) + call.arguments.map(\.text)
    calls.append(words.joined(separator: " "))
    if let refusal { throw refusal }
  }

  /// A method whose calls are recorded.
  ///
  /// - Parameters:
  ///   - arguments: the types of the arguments.
  ///   - out: the types of the results.
  public func method(
    _ name: String, _ arguments: [String] = [], out: [String] = [], of subject: String? = nil,
    answer: @escaping @LoopActor (MethodCall) -> [DBusValue] = { _ in [] }
  ) -> DBus.Method {
    DBus.Method(
      name, in: arguments.map { Argument("a", $0) }, out: out.map { Argument("b", $0) },
      returning: { [weak self] call throws(DBusError) in
        try self?.note(call, of: subject)
        return answer(call)
      })
  }
}
