import DBus
import Foundation
import Hosting
import Loop
import TestSupport
import Testing

/// The order of events in the service as a process.
@Suite("Threads and bus connections of the daemon")
struct ThreadTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("After a transfer the daemon has only the event loop's thread and two worker threads")
  @LoopActor
  func threads() async throws {
    let counter = try await Counter("client")
    defer { counter.close() }
    try await counter.deliver("credential")
    let process = try #require(counter.processID)
    let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
    let names = tasks.compactMap { try? String(contentsOfFile: "/proc/\(process)/task/\($0)/comm", encoding: .utf8) }
      .map { $0.split(separator: "\n").joined() }.sorted()
    #expect(names == ["computing", "disk", "earshotd"])
  }

  @Test("The daemon calls bluetoothd over a separate bus connection, on which it exports no objects to other programs")
  @LoopActor
  func connections() async throws {
    let service = try await ServiceProcess("[Radio]\nBackend=bluez\nNotifyUnsubscribed=no")
    defer { service.close() }
    let fake = FakeBlueZ(service.bus)
    fake.addAdapter()
    try await fake.start()
    defer { fake.vanish() }
    try await service.start()
    try await fake.until { !fake.applications.isEmpty && !(fake.applications.first?.characteristics.isEmpty ?? true) }
    let application = try #require(fake.applications.first)
    let owner = try await service.client.call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetNameOwner", [.string("org.earshot")]
    ).first?.asString
    #expect(owner?.isEmpty == false && application.owner != owner)

    func paths(_ destination: String, _ path: ObjectPath) async throws -> [String] {
      try await service.client.call(
        destination, path, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects"
      ).first?.asDictionary?.keys.sorted() ?? []
    }
    let listed = try await paths("org.earshot", ManagerAdaptor.path)
    #expect(listed.contains("/org/earshot/verifier") && !listed.contains { $0.hasPrefix(application.path.string) })
    await #expect(throws: DBusError.self) { _ = try await paths(application.owner, ManagerAdaptor.path) }
    await #expect(throws: DBusError.self) { _ = try await paths(application.owner, application.path) }
  }
}
