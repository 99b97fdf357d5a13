import DBus
import Loop

/// A stand-in for systemd on a private bus, which reports the processes of the unit `bluetooth.service`.
@LoopActor
public final class FakeServiceManager {
  /// The command lines of the unit's processes.
  public var commandLines: [String]
  /// Number of requests that the stand-in received.
  public private(set) var asked = 0

  private let connection: BusConnection
  private var exported: ExportedObject?

  public init(_ bus: PrivateBus, _ commandLines: String...) {
    self.commandLines = commandLines
    connection = BusConnection(address: .address(bus.address))
  }

  public func start() async throws {
    let processes = Method(
      "GetUnitProcesses", in: [Argument("name", "s")], out: [Argument("processes", "a(sus)")]
    ) { [weak self] call in
      guard let self, call.arguments.first?.asString == "bluetooth.service" else {
        return call.fail(.failed("There is no such unit."))
      }
      asked += 1
      let lines = commandLines.enumerated().map { number, line in
        DBusValue.structure([.string("/system.slice/bluetooth.service"), .uint32(UInt32(100 + number)), .string(line)])
      }
      call.reply(.array(of: "(sus)", lines))
    }
    exported = connection.objects.export(
      "/org/freedesktop/systemd1",
      interfaces: [Interface("org.freedesktop.systemd1.Manager", methods: [processes])])
    connection.connect(name: "org.freedesktop.systemd1")
    try await connection.ready()
  }

  public func close() { connection.close() }
}
