import DBus
import Hosting
import Listing
import Loop
import TestSupport
import Testing
import ToolList

@testable import CommandLine
@testable import Tool

@Suite("Commands of a user outside the group", .serialized)
struct OutsiderTests {
  init() { EventLoop.shared.runInBackground() }

  /// The commands that every user may run, and those that do not call the service.
  private static let open: Set = ["verifier show", "mesh decode", "check", "social serve", "doctor", "report"]

  /// Every command of the services with its required arguments.
  private static func commands(of part: ToolPart) -> [(name: String, words: [String])] {
    ToolProgram([part], version: "1").grammar.places.filter { $0.command.commands.isEmpty }.map { path, command, _ in
      let arguments = command.arguments.filter { $0.count != .optional }.map { _ in "x" }
      return (path.dropFirst().joined(separator: " "), path.dropFirst() + arguments)
    }.filter { !["status", "monitor", "explain", "completion"].contains($0.name) }
  }

  /// Services that refuse every call, and show only what every program may see: one for each bus name of the tool.
  @LoopActor
  private static func services() async throws -> (bus: PrivateBus, connections: [BusConnection]) {
    let bus = try PrivateBus()
    var connections: [BusConnection] = []
    for name in ["org.earshot", "org.earshot.Social", "org.earshot.Presence", "org.earshot.Nostr"] {
      let connection = BusConnection(address: .address(bus.address))
      connection.objects.access = AccessRule(refusal: String(repeating: "Rejected send message. ", count: 20)) { _ in
        false
      }
      connection.objects.exportManager(ManagerAdaptor.path)
      connection.connect(name: name)
      try await connection.ready()
      connections.append(connection)
    }
    return (bus, connections)
  }

  @Test("For a user outside the group each command for the group ends with status 4 and one sentence")
  @LoopActor
  func commands() async throws {
    let (bus, connections) = try await Self.services()
    defer {
      for connection in connections { connection.close() }
      bus.stop()
    }
    var asked = 0
    for part in ToolList.parts {
      for (name, words) in Self.commands(of: part) where !Self.open.contains(name) {
        let call = await ToolCall.run(part, words + ["--bus", bus.address], input: "hello")
        let text = call.failure ?? ""
        #expect(call.code == .denied && call.output == "", "\(name): \(call)")
        #expect(text.contains("earshot") && !text.contains("Rejected") && !text.contains("\n"), "\(name): \(text)")
        asked += 1
      }
    }
    #expect(asked > 30)
  }

  @Test("The sentence for a user outside the group names the user and the remedy")
  func sentence() {
    #expect(
      Failure.outsider("alice", members: ["bob"])
        == "The user alice is not in the group earshot: run `sudo usermod -aG earshot alice`, then log in again.")
    #expect(Failure.outsider("alice", members: ["bob", "alice"]).contains("log out and in again"))
    #expect(Failure.outsider("alice", members: nil).contains("no group earshot"))
  }
}
