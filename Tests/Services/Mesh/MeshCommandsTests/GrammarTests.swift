import CommandLine
import DBus
import Loop
import MeshViews
import Testing

@testable import MeshCommands
@testable import Tool

@Suite("The grammar of `earshot mesh`")
struct GrammarTests {
  private static let tool = ToolProgram([MeshTool.part], version: "1")
  private static let verbs = [
    "show", "say", "tell", "send", "files", "log", "peers", "ping", "map", "verify", "nick", "announce", "favourite",
    "block", "forget", "uplink", "wipe", "decode",
  ]

  @Test("Every verb of `earshot mesh` has help, completion, --json and an action")
  func verbs() throws {
    let mesh = try #require(Self.tool.grammar.commands.first { $0.name == "mesh" })
    #expect(mesh.commands.map(\.name) == Self.verbs)
    let help = try Self.tool.grammar.parse(["mesh", "--help"]).help
    for verb in Self.verbs {
      #expect(help.contains("\n  \(verb) "), "\(verb)")
      let own = try Self.tool.grammar.parse(["mesh", verb, "--help"]).help
      #expect(own.hasPrefix("Usage: earshot mesh \(verb) ") && own.contains("--json"))
      #expect(own.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(own)")
      #expect(MeshTool.part.verbs.first?.action(at: ["mesh", verb]) != nil)
      for shell in Shell.allCases { #expect(Self.tool.grammar.completion(for: shell).contains("earshot mesh \(verb)")) }
    }
  }

  @Test("`earshot mesh` options are accepted only by the verbs that define them")
  func options() throws {
    let log = try Self.tool.grammar.parse(["mesh", "log", "-f", "-n", "5", "--with", "bob#1a2b"])
    #expect(log.flag("follow") && log.integer("limit") == 5 && log.value("with") == "bob#1a2b")
    #expect(try Self.tool.grammar.parse(["mesh", "block", "bob", "--off"]).flag("off"))
    #expect(try Self.tool.grammar.parse(["mesh", "tell", "bob", "a", "b"]).arguments("TEXT") == ["a", "b"])
    #expect(try Self.tool.grammar.parse(["mesh"]).path == ["mesh", "show"])
    for words in [["log", "--limit", "-1"], ["forget"], ["nick"], ["decode", "a", "b"], ["show", "--off"]] {
      #expect(throws: UsageError.self, "\(words)") { try Self.tool.grammar.parse(["mesh"] + words) }
    }
  }

  @Test("`earshot status` shows the mesh properties that the caller may read, and nothing without a mesh")
  @LoopActor
  func status() {
    func status(_ properties: [String: DBusValue]) -> String {
      MeshTool.part.status([MeshNames.path.string: [MeshNames.interface: properties]])
    }
    let everybody: [String: DBusValue] = [
      "State": .string("waitingForClock"), "Reason": .string("No time source."),
      "Counters": .dictionary(
        key: "s", value: "t", [DBusEntry(.string("Clock"), .uint64(2)), DBusEntry(.string("Bad"), .uint64(0))]),
    ]
    #expect(
      status(everybody)
        == "  mesh      waiting for the clock\n            No time source.\n")
    let group: [String: DBusValue] = [
      "State": .string("connected"), "Nickname": .string("m\u{1B}e"), "PeerId": .string(MeshStand.own),
      "Links": .uint32(1), "Unread": .uint32(3),
    ]
    #expect(status(group) == "  mesh      connected  as m\u{FFFD}e (00000000000000ff), 1 link, 3 unread\n")
    let carrying = group.merging(["Unread": .uint32(0), "Carried": .uint32(1)]) { $1 }
    #expect(
      status(carrying)
        == "  mesh      connected  as m\u{FFFD}e (00000000000000ff), 1 link, carrying 1 envelope of others\n")
    #expect(MeshTool.part.status([:]) == "")
  }
}
