import Common
import DBus
import Loop
import TestSupport

/// A private bus with two connections: the service, which owns `org.example.Service`, and the client.
@LoopActor
struct Table {
  static let name = "org.example.Service"
  static let path: ObjectPath = "/org/example"
  static let interface = "org.example.Thing1"

  let bus: PrivateBus
  let service: BusConnection
  let client: BusConnection

  init(configuration: String = "", limits: BusLimits = BusLimits()) async throws {
    bus = try PrivateBus(configuration: configuration)
    service = BusConnection(address: .address(bus.address), limits: limits)
    client = BusConnection(address: .address(bus.address))
    service.connect(name: Self.name)
    client.connect()
    try await service.ready()
    try await client.ready()
  }

  /// Ends the processes that `init` started.
  func close() {
    service.close()
    client.close()
    bus.stop()
  }

  /// Calls a method of the service's object.
  func call(_ method: String, _ arguments: [DBusValue] = [], on interface: String = interface) async throws
    -> [DBusValue]
  {
    try await client.call(Self.name, Self.path, interface, method, arguments)
  }

  /// The error of a call to the service's object; nil on success.
  func error(
    _ method: String, _ arguments: [DBusValue] = [], on interface: String = interface, at path: ObjectPath = path
  ) async -> DBusError? {
    do throws(DBusError) {
      _ = try await client.call(Self.name, path, interface, method, arguments)
      return nil
    } catch {
      return error
    }
  }

  /// Numbers of calls that were refused because of their caller.
  var refusals: [Tally] { Array(service.objects.tallies.prefix(2)) }

  /// Exports an interface on the service's object.
  func export(_ interface: Interface) -> ExportedObject {
    service.objects.export(Self.path, interfaces: [interface])
  }
}

/// A method that returns its one argument, of the type `signature`.
@LoopActor
func echo(_ name: String, _ signature: String) -> Method {
  Method(
    name, in: [Argument("value", signature)], out: [Argument("value", signature)], returning: { $0.arguments })
}
