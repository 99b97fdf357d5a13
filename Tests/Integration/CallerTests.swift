import Common
import DBus
import Foundation
import Glibc
import Hosting
import Loop
import TestSupport
import Testing

/// Calls and signals that each program may use, by the installed policy and by the service's own check of the caller.
@Suite("Access of users and groups to the D-Bus interfaces")
struct CallerTests {
  init() { EventLoop.shared.runInBackground() }

  private static let group: UInt32 = 4242

  @Test(
    "Root, the service's user and members of its group may call the service, and other users may not",
    arguments: [
      (Credentials(uid: 0, pid: nil, gids: []), true), (Credentials(uid: 990, pid: nil, gids: [990]), true),
      (Credentials(uid: 1000, pid: nil, gids: [1000, group]), true),
      (Credentials(uid: 1000, pid: nil, gids: [group]), true),
      (Credentials(uid: 1000, pid: nil, gids: [1000]), false), (Credentials(uid: 1000, pid: nil, gids: [0]), false),
      (Credentials(uid: 65534, pid: nil, gids: []), false), (Credentials(uid: group, pid: nil, gids: []), false),
    ])
  func rule(caller: Credentials, isAllowed: Bool) {
    #expect(ServiceAccess.rule(own: 990, group: Self.group).allows(caller) == isAllowed)
  }

  @Test("Without a configured group, only root and the service's user may call the service")
  func noGroup() {
    let rule = ServiceAccess.rule(own: 990, group: nil)
    #expect(rule.allows(Credentials(uid: 0, pid: nil, gids: [])))
    #expect(!rule.allows(Credentials(uid: 1000, pid: nil, gids: [0, 4242])))
  }

  /// A caller, and whether its calls succeed.
  private static let callers: [(name: String, words: [String], mayCall: Bool)] = [
    ("root", [], true),
    ("a member of the group", ["setpriv", "--reuid=65534", "--regid=65534", "--groups=1"], true),
    ("nobody", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], false),
  ]

  @Test(
    "The installed D-Bus policy allows the same callers as the service's own access check",
    .enabled(if: getuid() == 0, "only root can be three users"), arguments: [true, false])
  @LoopActor
  func threeUsers(withPolicy: Bool) async throws {
    let desk = try await Desk(withPolicy: withPolicy)
    defer { desk.close() }
    for (name, words, mayCall) in Self.callers {
      let called = try await desk.send("org.example.Thing1.Do", as: words)
      #expect(called.contains("string \"done\"") == mayCall, "\(name): \(called)")
      if !mayCall {
        // The bus and the service report different errors.
        #expect(called.contains(withPolicy ? "org.freedesktop.DBus.Error.AccessDenied" : "org.earshot.Error.Denied"))
      }
      let set = try await desk.send("org.freedesktop.DBus.Properties.Set", as: words)
      #expect(set.contains("Denied") != mayCall, "\(name): \(set)")
      for look in ["Introspectable.Introspect", "Peer.Ping", "ObjectManager.GetManagedObjects"] {
        let seen = try await desk.send("org.freedesktop.DBus.\(look)", as: words)
        #expect(seen.contains("method return"), "\(name), \(look): \(seen)")
        #expect(seen.contains("hidden") == (mayCall && look != "Peer.Ping"), "\(name), \(look): \(seen)")
      }
      let get = "org.freedesktop.DBus.Properties.Get"
      let level = try await desk.send(get, "string:org.example.Thing1", "string:Level", as: words)
      #expect(level.contains("uint32 7"), "\(name): \(level)")
      let secret = try await desk.send(get, "string:org.example.Thing1", "string:Secret", as: words)
      #expect(secret.contains(Desk.secret) == mayCall, "\(name): \(secret)")
      #expect(secret.contains("Only root and members of the group earshot may do this.") != mayCall, "\(secret)")
      let all = try await desk.send("org.freedesktop.DBus.Properties.GetAll", "string:org.example.Thing1", as: words)
      #expect(all.contains("uint32 7") && all.contains(Desk.secret) == mayCall, "\(name): \(all)")
    }
  }
}

/// A service with the name and the access rules of `earshotd`, on a bus with the installed policy; the group is
/// `daemon`, which every machine has.
@LoopActor
private final class Desk {
  private let bus: PrivateBus
  private let service: BusConnection
  private var objects: [ExportedObject] = []
  static let secret = "secret-4711"

  init(withPolicy: Bool) async throws {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent("dbus-policy/org.earshot.conf")
    let policy = try String(contentsOf: file, encoding: .utf8)
    let begin = try #require(policy.range(of: "<busconfig>")).upperBound
    let end = try #require(policy.range(of: "</busconfig>")).lowerBound
    let rules = String(policy[begin..<end]).replacingOccurrences(of: "\"earshot\"", with: "\"daemon\"")
    // As on the system bus, any user may connect.
    let everybody = "<policy context=\"default\"><allow user=\"*\"/></policy>"
    bus = try PrivateBus(configuration: everybody + (withPolicy ? rules : ""))
    service = BusConnection(address: .address(bus.address))
    service.objects.access = ServiceAccess.rule(own: 0, group: 1)
    service.objects.exportManager(ManagerAdaptor.path)
    let method = Method(
      "Do", out: [Argument("answer", "s")], documentation: "Does it.",
      returning: { _ throws(DBusError) in [.string("done")] })
    let properties = [
      Property("Level", "u", audience: .everybody, get: { .uint32(7) }),
      Property("Secret", "s", get: { .string(Self.secret) }),
    ]
    let thing = Interface(
      "org.example.Thing1", documentation: "A thing.", audience: .everybody, methods: [method], properties: properties)
    objects = [
      service.objects.export(ManagerAdaptor.path, interfaces: [thing]),
      service.objects.export(
        ManagerAdaptor.path.child("open"), interfaces: [thing], manager: ManagerAdaptor.path),
      service.objects.export(
        ManagerAdaptor.path.child("hidden"), interfaces: [Interface("org.example.Hidden1", properties: properties)],
        manager: ManagerAdaptor.path),
    ]
    service.connect(name: "org.earshot")
    try await service.ready()
  }

  func close() {
    service.close()
    bus.stop()
  }

  /// The output of `dbus-send` for a call.
  func send(_ method: String, _ arguments: String..., as words: [String]) async throws -> String {
    try await dbusSend(
      bus, ["--print-reply", "--dest=org.earshot", ManagerAdaptor.path.string, method] + arguments, as: words)
  }
}
