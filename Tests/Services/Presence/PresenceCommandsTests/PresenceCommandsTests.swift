import CommandLine
import DBus
import Glibc
import Loop
import TestSupport
import Testing

@testable import PresenceCommands
@testable import Tool

/// A stand-in for the service on a bus of its own, with two known peers. It records the calls.
@LoopActor
private final class PresenceBus {
  private let stand: StandInService
  /// The descriptor of the peer's end of the stream that the stand-in's `Open` returned last.
  private(set) var far: Int32 = -1

  init() async throws {
    stand = try StandInService(manager: PresenceNames.path)
    stand.export(PresenceNames.path, service())
    for (number, name, ways) in [(1, "anna", ["bluetooth", "network"]), (2, "ben", [])] {
      stand.export(PresenceNames.path.child("peers").child("\(number)"), peer(name, ways))
    }
    try await stand.begin("org.earshot.Presence")
  }

  var calls: [String] { stand.calls }
  var refusal: DBusError? {
    get { stand.refusal }
    set { stand.refusal = newValue }
  }

  func close() {
    stand.close()
    if far >= 0 { Glibc.close(far) }
  }

  func run(_ words: String..., input: String = "") async -> ToolCall {
    await stand.run(PresenceTool.part, "presence", words, input: input)
  }

  private func service() -> Interface {
    Interface(
      PresenceNames.interface,
      methods: [
        stand.method("AddPeer", ["s", "s"], out: ["o"]) { _ in [.objectPath("/org/earshot/presence/peers/1")] },
        stand.method("RemovePeer", ["o"]), stand.method("Announce", ["as", "u"]), stand.method("Silence"),
        stand.method("Open", ["o", "s"], out: ["h"]) { [weak self] _ in
          var ends: [Int32] = [-1, -1]
          socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
          _ = send(ends[0], "from anna\n", 10, 0)
          shutdown(ends[0], Int32(SHUT_WR))
          self?.far = ends[0]
          return [.descriptor(FileDescriptor(owning: ends[1]))]
        },
      ],
      properties: [
        Property("State", "s", get: { .string("ready") }),
        Property("Reason", "s", get: { .string("Bluetooth is not used, because earshotd does not run.") }),
        Property("PublicKey", "s", get: { .string("KEY") }),
        Property("Fingerprint", "s", get: { .string("f00d") }),
        Property("Announcing", "as", get: { .strings(["anna"]) }),
        Property("Reachable", "as", get: { .strings(["bluetooth", "network"]) }),
        Property("Services", "as", get: { .strings([]) }),
        Property("Dialects", "as", get: { .strings(["spec"]) }),
        Property("MultiPeerConnectivity", "s", get: { .string("unsupported") }),
        Property(
          "Counters", "a{st}",
          get: {
            .dictionary(
              key: "s", value: "t",
              [DBusEntry(.string("AcceptedLinks"), .uint64(3)), DBusEntry(.string("OldPhones"), .uint64(0))])
          }),
      ])
  }

  private func peer(_ name: String, _ ways: [String]) -> Interface {
    Interface(
      PresenceNames.peerInterface,
      properties: [
        Property("Name", "s", get: { .string(name) }), Property("Fingerprint", "s", get: { .string("f-\(name)") }),
        Property("Nearby", "b", get: { .bool(!ways.isEmpty) }), Property("Ways", "as", get: { .strings(ways) }),
        Property("LastHeard", "t", get: { .uint64(0) }),
      ])
  }
}

@Suite("Commands of `earshot presence`", .serialized)
struct PresenceCommandsTests {
  init() { EventLoop.shared.runInBackground() }

  private static let verbs = [
    "show", "key", "add", "remove", "announce", "silence", "peers", "watch", "connect", "serve",
  ]

  @Test("Every verb of `earshot presence` has help in 80 columns, --json and an action")
  func verbs() throws {
    let tool = ToolProgram([PresenceTool.part], version: "1")
    let presence = try #require(tool.grammar.commands.first { $0.name == "presence" })
    #expect(presence.commands.map(\.name) == Self.verbs)
    for verb in Self.verbs {
      let help = try tool.grammar.parse(["presence", verb, "--help"]).help
      #expect(help.hasPrefix("Usage: earshot presence \(verb) ") && help.contains("--json"))
      #expect(help.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(help)")
      #expect(PresenceTool.part.verbs.first?.action(at: ["presence", verb]) != nil)
    }
    #expect(try tool.grammar.parse(["presence"]).path == ["presence", "show"])
  }

  @Test("`presence show` names the missing medium and the counters that are not 0")
  @LoopActor
  func show() async throws {
    let bus = try await PresenceBus()
    defer { bus.close() }
    let call = await bus.run("show")
    #expect(call.code == .ok)
    #expect(call.output.contains("reason         Bluetooth is not used, because earshotd does not run.\n"))
    #expect(call.output.contains("reachable      bluetooth, network\n") && call.output.contains("AcceptedLinks 3"))
    #expect(!call.output.contains("OldPhones"))
    let json = await bus.run("show", "--json").output
    #expect(json.contains("\"multiPeerConnectivity\": \"unsupported\"") && json.contains("\"OldPhones\": 0"))
    #expect(await bus.run("key") == ToolCall(.ok, "KEY\n"))
  }

  @Test("`presence peers` lists the ways to each peer")
  @LoopActor
  func peers() async throws {
    let bus = try await PresenceBus()
    defer { bus.close() }
    let lines = await bus.run("peers").output.split(separator: "\n").map(String.init)
    #expect(lines.count == 3 && lines[1].hasPrefix("anna") && lines[1].contains("bluetooth, network"))
    #expect(lines[2].hasPrefix("ben") && lines[2].contains("no") && lines[2].hasSuffix("f-ben"))
    #expect(await bus.run("peers", "--json").output.contains("\"ways\""))
  }

  @Test("`presence announce` and `silence` make one D-Bus call each, and `add` shows the fingerprint")
  @LoopActor
  func announce() async throws {
    let bus = try await PresenceBus()
    defer { bus.close() }
    #expect(await bus.run("announce", "anna", "ben", "--for", "30") == ToolCall(.ok, "Announced to anna, ben.\n"))
    #expect(await bus.run("silence") == ToolCall(.ok, "Nothing is announced.\n"))
    #expect(await bus.run("add", "anna", "KEY") == ToolCall(.ok, "anna is known. Fingerprint: f-anna\n"))
    #expect(await bus.run("remove", "ben") == ToolCall(.ok, "ben is no longer a known peer.\n"))
    #expect(bus.calls.count == 4 && bus.calls[1] == "Silence" && bus.calls[3].contains("/peers/2"))
  }

  @Test("`presence connect` copies standard input to the stream, and the stream to standard output")
  @LoopActor
  func connect() async throws {
    let bus = try await PresenceBus()
    defer { bus.close() }
    #expect(await bus.run("connect", "anna", "echo", input: "") == ToolCall(.ok, "from anna\n"))
    let unknown = await bus.run("connect", "carl", "echo")
    #expect(unknown.code == .failed && unknown.failure?.contains("earshot presence peers") == true)
  }

  @Test("A refused `presence` command fails with the sentence of the service")
  @LoopActor
  func refused() async throws {
    let bus = try await PresenceBus()
    defer { bus.close() }
    bus.refusal = .notReady("The peer is not nearby.")
    let call = await bus.run("connect", "anna", "echo")
    #expect(call.code != .ok && call.failure == "The peer is not nearby.")
  }
}
