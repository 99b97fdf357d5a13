import Air
import Common
import DBus
import Foundation
import Glibc
import Hosting
import Loop
import MeshStore
import Radio
import Sharing
import TestSupport
import Testing

@testable import Mesh

/// A node of the mesh with its interface for the uplink, on a private bus.
@LoopActor
private final class NodeOnBus {
  let bus: PrivateBus
  let server: BusConnection
  let service: MeshService
  private let face: MeshUplinkAdaptor

  init(configuration: String = "", users: @escaping @LoopActor () -> Set<UInt32> = { [getuid()] }) async throws {
    bus = configuration.isEmpty ? try PrivateBus() : try PrivateBus(configuration: configuration)
    server = BusConnection(address: .address(bus.address))
    server.objects.access = ServiceAccess.rule(
      own: configuration.isEmpty ? getuid() + 1 : 0, group: configuration.isEmpty ? nil : 1,
      checked: [MeshUplinkAdaptor.interfaceName])
    server.objects.exportManager(ManagerAdaptor.path)
    let loop = EventLoop.shared
    let node = AirSpace(scheduler: loop, seed: 1).addNode()
    let radio = SharedRadio(driver: node, scheduler: loop).tenant("mesh", share: MeshService.linkShare)
    service = MeshService(
      radio: radio, scheduler: loop, settings: MeshSettings(),
      keeper: NodeStore(directory: nil, scheduler: loop, disk: loop))
    face = MeshUplinkAdaptor(service, on: server, tree: server.objects, manager: ManagerAdaptor.path, users: users)
    let started = Mailbox<Void>()
    service.start { started.put(()) }
    try await started.next()
    server.connect(name: "org.earshot")
    try await server.ready()
  }

  func connection() async throws -> BusConnection {
    let connection = BusConnection(address: .address(bus.address))
    connection.connect()
    try await connection.ready()
    return connection
  }

  /// The name of the error; empty for success.
  func error(_ method: String, _ arguments: DBusValue..., from connection: BusConnection) async -> String {
    do throws(DBusError) {
      _ = try await connection.call(
        "org.earshot", MeshUplinkAdaptor.path, MeshUplinkAdaptor.interfaceName, method, arguments)
      return ""
    } catch {
      return error.name.split(separator: ".").last.map(String.init) ?? ""
    }
  }

  func close() {
    service.stop()
    server.close()
    bus.stop()
  }
}

@Suite("The D-Bus interface org.earshot.MeshUplink1", .serialized)
struct UplinkAdaptorTests {
  init() { EventLoop.shared.runInBackground() }

  private static let key = DBusValue.string("npub1" + String(repeating: "q", count: 58))

  @Test("A user other than earshot-nostr that calls MeshUplink1 gets Denied, and changes nothing")
  @LoopActor
  func otherUser() async throws {
    let node = try await NodeOnBus(users: { [getuid() + 1] })
    defer { node.close() }
    let client = try await node.connection()
    defer { client.close() }
    #expect(await node.error("Attach", Self.key, from: client) == "Denied")
    #expect(await node.error("Received", Self.key, .string("hello"), from: client) == "Denied")
    #expect(!node.service.uplink.isAttached)
  }

  @Test("The first uplink program carries packets until it leaves the bus, and a second one gets Busy")
  @LoopActor
  func oneProgram() async throws {
    let node = try await NodeOnBus()
    defer { node.close() }
    let (first, second) = (try await node.connection(), try await node.connection())
    defer { second.close() }
    #expect(await node.error("Received", Self.key, .string("hello"), from: first) == "Denied")
    #expect(await node.error("Attach", .string("npub1"), from: first) == "InvalidArgs")
    #expect(await node.error("Attach", Self.key, from: first) == "")
    #expect(node.service.uplink.isAttached)
    #expect(await node.error("Attach", Self.key, from: second) == "Busy")
    #expect(await node.error("Received", Self.key, .string("hello"), from: second) == "Denied")
    let refused = await node.error("Received", Self.key, .string("hello"), from: first)
    #expect(refused == "InvalidArgs" || refused == "NotReady")
    let gone = Mailbox<Void>()
    let watch = second.subscribe(
      SignalMatch(sender: "org.earshot", path: MeshUplinkAdaptor.path, member: "PropertiesChanged")
    ) { message in
      if message.arguments.dropFirst().first?["Attached"]?.asBool == false { gone.put(()) }
    }
    defer { watch.cancel() }
    first.close()
    try await gone.next()
    #expect(await node.error("Attach", Self.key, from: second) == "")
  }

  private static func rules(_ name: String) throws -> String {
    let path = #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined() + "/dbus-policy/\(name)"
    let policy = try String(contentsOfFile: path, encoding: .utf8)
    let begin = try #require(policy.range(of: "<busconfig>")).upperBound
    let end = try #require(policy.range(of: "</busconfig>")).lowerBound
    return String(policy[begin..<end]).replacingOccurrences(of: "\"earshot-nostr\"", with: "\"bin\"")
      .replacingOccurrences(of: "\"earshot\"", with: "\"daemon\"")
  }

  /// The user `bin` stands for `earshot-nostr`, and the group `daemon` for `earshot`; every machine has them.
  @Test(
    "Only the user earshot-nostr may carry packets, by the bus policy and by the service's own check",
    .enabled(if: getuid() == 0, "only root can be several users"), arguments: [true, false])
  @LoopActor
  func policy(isInstalled: Bool) async throws {
    let everybody = "<policy context=\"default\"><allow user=\"*\"/></policy>"
    let rules = isInstalled ? try Self.rules("org.earshot.conf") + Self.rules("org.earshot.Nostr.conf") : ""
    let node = try await NodeOnBus(configuration: everybody + rules, users: { [2] })
    defer { node.close() }
    func attach(as words: [String]) async throws -> String {
      try await dbusSend(
        node.bus,
        [
          "--print-reply", "--dest=org.earshot", MeshUplinkAdaptor.path.string,
          "\(MeshUplinkAdaptor.interfaceName).Attach", "string:\(Self.key.asString ?? "")",
        ], as: words)
    }
    let error = isInstalled ? "org.freedesktop.DBus.Error.AccessDenied" : "org.earshot.Error.Denied"
    for words in [
      [], ["setpriv", "--reuid=65534", "--regid=65534", "--groups=1"],
      ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
    ] {
      let answer = try await attach(as: words)
      #expect(answer.contains(error), "\(words): \(answer)")
    }
    let answer = try await attach(as: ["setpriv", "--reuid=2", "--regid=2", "--clear-groups"])
    #expect(answer.contains("method return"), "\(answer)")
  }
}
