import DBus
import Foundation
import Glibc
import Hosting
import Loop
import TestSupport
import Testing

@testable import Presence

/// The service on a bus with the installed policy. The user `daemon` stands for `earshot`, the group `daemon` for the
/// group `earshot`, and `bin` for `earshot-presence`. All machines have them.
@LoopActor
private final class PolicedPresence {
  let bus: PrivateBus
  private let server: BusConnection
  private let service: PresenceService
  private let face: PresenceAdaptor
  private let sink: ExportedObject

  private static func rules() throws -> String {
    let path =
      #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined() + "/dbus-policy/org.earshot.Presence.conf"
    let policy = try String(contentsOfFile: path, encoding: .utf8)
    let begin = try #require(policy.range(of: "<busconfig>")).upperBound
    let end = try #require(policy.range(of: "</busconfig>")).lowerBound
    return String(policy[begin..<end]).replacingOccurrences(of: "\"earshot-presence\"", with: "\"bin\"")
      .replacingOccurrences(of: "\"earshot\"", with: "\"daemon\"")
  }

  init(withPolicy: Bool) async throws {
    // As on the system bus, any user may connect.
    let everybody = "<policy context=\"default\"><allow user=\"*\"/></policy>"
    let rules = withPolicy ? try Self.rules() : ""
    bus = try PrivateBus(configuration: everybody + rules)
    server = BusConnection(address: .address(bus.address))
    server.objects.access = ServiceAccess.rule(
      own: 0, group: 1, checked: [BusBluetooth.sinkInterface], outsider: "daemon")
    let neighbourhood = Neighbourhood()
    service = PresenceService(
      settings: PresenceSettings(), network: NoNetwork(), bluetooth: neighbourhood.radio(),
      book: KnownPeerStore(directory: "", disk: EventLoop.shared), scheduler: EventLoop.shared, clock: SystemWallClock()
    )
    face = PresenceAdaptor(service, on: server)
    let radio = BusBluetooth("org.earshot", on: server, scheduler: EventLoop.shared)
    sink = server.objects.export(BusBluetooth.sinkPath, interfaces: [BusBluetooth.sink(radio)])
    server.connect(name: PresenceAdaptor.busName)
    try await server.ready()
  }

  func close() {
    server.close()
    bus.stop()
  }

  func call(_ path: ObjectPath, _ method: String, _ arguments: String..., as words: [String]) async throws -> String {
    try await dbusSend(
      bus, ["--print-reply", "--dest=\(PresenceAdaptor.busName)", path.string, method] + arguments, as: words)
  }
}

@Suite("Access to the D-Bus interface of private presence", .serialized)
struct PresencePolicyTests {
  init() { EventLoop.shared.runInBackground() }

  private static let member = ["setpriv", "--reuid=65534", "--regid=65534", "--groups=1"]
  private static let stranger = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
  private static let radio = ["setpriv", "--reuid=1", "--regid=1", "--groups=1"]

  @Test(
    "Root and the group may call presence, and others and the radio's user may not, by policy and own check",
    .enabled(if: getuid() == 0, "only root can be several users"), arguments: [true, false])
  @LoopActor
  func callers(withPolicy: Bool) async throws {
    let presence = try await PolicedPresence(withPolicy: withPolicy)
    defer { presence.close() }
    let error = withPolicy ? "org.freedesktop.DBus.Error.AccessDenied" : "org.earshot.Error.Denied"
    let silence = "\(PresenceAdaptor.interfaceName).Silence"
    for words in [[], Self.member] {
      let answer = try await presence.call(PresenceAdaptor.path, silence, as: words)
      #expect(answer.contains("method return"), "\(words): \(answer)")
    }
    for words in [Self.stranger, Self.radio] {
      let answer = try await presence.call(PresenceAdaptor.path, silence, as: words)
      #expect(answer.contains(error), "\(words): \(answer)")
      let key = try await presence.call(
        PresenceAdaptor.path, "org.freedesktop.DBus.Properties.Get", "string:\(PresenceAdaptor.interfaceName)",
        "string:PublicKey", as: words)
      #expect(!key.contains("method return"), "\(words): \(key)")
    }
  }

  @Test(
    "The bus policy lets the radio's user report scan results, and the service accepts them only from earshotd",
    .enabled(if: getuid() == 0, "only root can be several users"))
  @LoopActor
  func sink() async throws {
    let presence = try await PolicedPresence(withPolicy: true)
    defer { presence.close() }
    let answer = try await presence.call(
      BusBluetooth.sinkPath, "\(BusBluetooth.sinkInterface).Sighted", "string:00:11:22:33:44:55", "byte:1",
      as: Self.radio)
    #expect(answer.contains("org.earshot.Error.Denied"), "\(answer)")
  }
}
