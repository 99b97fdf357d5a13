import Air
import DBus
import Foundation
import Glibc
import Hosting
import Loop
import Radio
import Sharing
import TestSupport
import Testing

@testable import PresenceRadio

/// The service on a bus with the installed policies. The user `bin` stands for `earshot-presence`, and the group
/// `daemon` for `earshot`; every machine has them.
@LoopActor
private final class PolicedRadio {
  private let bus: PrivateBus
  private let server: BusConnection
  private let service: PresenceRadioService
  private let face: PresenceRadioAdaptor

  static let user: UInt32 = 2

  private static func rules(_ name: String) throws -> String {
    let path = #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined() + "/dbus-policy/\(name)"
    let policy = try String(contentsOfFile: path, encoding: .utf8)
    let begin = try #require(policy.range(of: "<busconfig>")).upperBound
    let end = try #require(policy.range(of: "</busconfig>")).lowerBound
    return String(policy[begin..<end]).replacingOccurrences(of: "\"earshot-presence\"", with: "\"bin\"")
      .replacingOccurrences(of: "\"earshot\"", with: "\"daemon\"")
  }

  init(withPolicy: Bool) async throws {
    // As on the system bus, any user may connect.
    let everybody = "<policy context=\"default\"><allow user=\"*\"/></policy>"
    let rules = withPolicy ? try Self.rules("org.earshot.conf") + Self.rules("org.earshot.Presence.conf") : ""
    bus = try PrivateBus(configuration: everybody + rules)
    server = BusConnection(address: .address(bus.address))
    server.objects.access = ServiceAccess.rule(own: 0, group: 1, checked: [PresenceRadioAdaptor.interfaceName])
    server.objects.exportManager(ManagerAdaptor.path)
    let node = AirSpace(scheduler: EventLoop.shared, seed: 1).addNode()
    let radio = SharedRadio(driver: node, scheduler: EventLoop.shared).tenant("x", share: .nothing)
    service = PresenceRadioService(radio: radio, scheduler: EventLoop.shared, settings: PresenceRadioSettings())
    face = PresenceRadioAdaptor(
      service, on: server, tree: server.objects, manager: ManagerAdaptor.path, users: { [Self.user] })
    server.connect(name: "org.earshot")
    try await server.ready()
  }

  func close() {
    server.close()
    bus.stop()
  }

  func call(_ method: String, _ arguments: String..., as words: [String]) async throws -> String {
    try await dbusSend(
      bus, ["--print-reply", "--dest=org.earshot", PresenceRadioAdaptor.path.string, method] + arguments, as: words)
  }
}

@Suite("Access to the D-Bus interface of the presence radio", .serialized)
struct PresencePolicyTests {
  init() { EventLoop.shared.runInBackground() }

  private static let callers: [(name: String, words: [String])] = [
    ("root", []),
    ("a member of the group", ["setpriv", "--reuid=65534", "--regid=65534", "--groups=1"]),
    ("nobody", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]),
  ]

  @Test(
    "Only the user earshot-presence may use the presence radio, by bus policy and by the service's check",
    .enabled(if: getuid() == 0, "only root can be several users"), arguments: [true, false])
  @LoopActor
  func users(withPolicy: Bool) async throws {
    let radio = try await PolicedRadio(withPolicy: withPolicy)
    defer { radio.close() }
    let error = withPolicy ? "org.freedesktop.DBus.Error.AccessDenied" : "org.earshot.Error.Denied"
    let silence = "\(PresenceRadioAdaptor.interfaceName).Silence"
    for (name, words) in Self.callers {
      let answer = try await radio.call(silence, as: words)
      #expect(answer.contains(error), "\(name): \(answer)")
    }
    let user = ["setpriv", "--reuid=\(PolicedRadio.user)", "--regid=\(PolicedRadio.user)", "--clear-groups"]
    let answer = try await radio.call(silence, as: user)
    #expect(answer.contains("method return"), "\(answer)")
    let get = "org.freedesktop.DBus.Properties.Get"
    for property in ["State", "Reason", "Reachable"] {
      let value = try await radio.call(
        get, "string:\(PresenceRadioAdaptor.interfaceName)", "string:\(property)", as: user)
      #expect(value.contains("method return"), "\(value)")
    }
    let counters = try await radio.call(
      get, "string:\(PresenceRadioAdaptor.interfaceName)", "string:Counters", as: user)
    #expect(!counters.contains("method return"), "\(counters)")
  }
}
