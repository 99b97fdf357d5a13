import TestSupport
import Testing

@testable import CommandLine

@Suite struct ParsingTests {
  private static func words(_ line: String) -> [String] { line.split(separator: " ").map(String.init) }

  @Test(
    "Command-line options are parsed in every spelling and in any order",
    arguments: [
      ("", "status | |"),
      ("--json", "status | json= |"),
      ("status -jv", "status | json= verbose= |"),
      ("-j -t 5 status", "status | json= timeout=5 |"),
      ("status -t5 --timeout=0.5", "status | timeout=5,0.5 |"),
      ("-jt5", "status | json= timeout=5 |"),
      ("verifier start", "verifier start | |"),
      ("verifier --json start -d 0.4 Kiosk", "verifier start | dialect=0.4 json= | NAME=Kiosk"),
      ("verifier start Kiosk --dialect=0.5 --count 3", "verifier start | count=3 dialect=0.5 | NAME=Kiosk"),
      ("verifier start -- -d", "verifier start | | NAME=-d"),
      ("verifier start -", "verifier start | | NAME=-"),
      ("present uri", "present | | URI=uri"),
      ("present uri a b c --receipt=r=s", "present | receipt=r=s | CREDENTIAL=a,b,c URI=uri"),
      ("present --receipt --json uri", "present | receipt=--json | URI=uri"),
      ("log debug", "log | | LEVEL=debug"),
    ])
  func understood(line: String, expected: String) throws {
    let parsed = try example.parse(Self.words(line))
    let show: ([String: [String]]) -> String = { values in
      values.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value.joined(separator: ","))" }.joined()
    }
    let path = parsed.path.joined(separator: " ")
    #expect("\(path) |\(show(parsed.options)) |\(show(parsed.arguments))" == expected)
    #expect(!parsed.wantsHelp)
  }

  @Test(
    "A usage error names the wrong word, a suggestion and the help command",
    arguments: [
      ("stauts", "There is no command stauts. Did you mean status?", "earshot"),
      ("kiosk", "There is no command kiosk.", "earshot"),
      ("verifier", "A command is missing.", "earshot verifier"),
      ("verifier sotp", "There is no command sotp. Did you mean stop?", "earshot verifier"),
      ("status --jsn", "There is no option --jsn. Did you mean --json?", "earshot status"),
      ("status --dialect 0.5", "There is no option --dialect.", "earshot status"),
      ("status -x", "There is no option -x.", "earshot status"),
      ("--json=yes", "--json takes no value.", "earshot"),
      ("--timeout", "--timeout needs a value: --timeout SECONDS.", "earshot"),
      ("status -jt", "-t needs a value: -t SECONDS.", "earshot status"),
      ("--timeout=soon", "--timeout: soon is not a time in seconds.", "earshot"),
      ("verifier start --count 10", "--count: 10 is not a number from 1 to 9.", "earshot verifier start"),
      ("verifier start -d 0.6", "-d: 0.6 is not one of 0.5, 0.4.", "earshot verifier start"),
      ("verifier start a b", "b is one argument too many.", "earshot verifier start"),
      ("present", "URI is missing.", "earshot present"),
      ("log loud", "LEVEL: loud is not one of info, debug.", "earshot log"),
      ("status more", "more is one argument too many.", "earshot status"),
    ])
  func refused(line: String, sentence: String, path: String) {
    do throws(UsageError) {
      let parsed = try example.parse(Self.words(line))
      Issue.record("understood as \(parsed.path)")
    } catch {
      #expect(error.sentence == sentence)
      #expect(error.hint == "Try: \(path) --help")
    }
  }

  @Test("`--help` is accepted at every level, even if arguments are missing")
  func help() throws {
    for (path, command, options) in example.places {
      for flag in ["--help", "-h"] {
        let parsed = try example.parse(path.dropFirst() + [flag])
        #expect(parsed.wantsHelp)
        #expect(parsed.path == Array(path.dropFirst()))
        #expect(parsed.help == command.help(path: path, options: options))
      }
    }
    #expect(try example.parse(["--help", "verifier", "start"]).path == ["verifier", "start"])
  }

  @Test("Option values are returned with their types, and absent options as nil")
  func accessors() throws {
    let parsed = try example.parse(["verifier", "start", "-j", "--count=3", "-t", "1.25", "-t", "2", "Kiosk"])
    #expect(parsed.flag("json") && !parsed.flag("help"))
    #expect(parsed.integer("count") == 3 && parsed.integer("timeout") == 2 && parsed.integer("json") == nil)
    #expect(parsed.seconds("timeout") == .seconds(2))
    #expect(parsed.value("dialect") == nil && parsed.values("timeout") == ["1.25", "2"])
    #expect(parsed.argument("NAME") == "Kiosk" && parsed.argument("FILE") == nil)
    #expect(parsed.arguments("NAME") == ["Kiosk"] && parsed.arguments("FILE") == [])
  }

  @Test(
    "An option value in seconds may have a decimal fraction",
    arguments: [
      ("0", .zero), ("2", .seconds(2)), ("0.5", .milliseconds(500)), ("1.000000001", .seconds(1) + .nanoseconds(1)),
      ("1000000", .seconds(1_000_000)), ("1000001", nil), ("1.0000000001", nil), ("-1", nil), ("", nil), (".5", nil),
      ("1.", nil), ("1.2.3", nil), ("1e3", nil), ("99999999999999999999", nil),
    ] as [(String, Duration?)])
  func seconds(text: String, expected: Duration?) {
    #expect(ValueShape.seconds(text) == expected)
  }

  @Test("The exit codes of the tool equal the documented ones")
  func exitCodes() {
    #expect(ExitCode.allCases.map(\.rawValue) == [0, 1, 2, 3, 4, 5, 6, 7, 8])
    #expect(ExitCode.ok.rawValue == 0 && ExitCode.usage.rawValue == 2 && ExitCode.timeout.rawValue == 5)
  }

  @Test("Swift's type CommandLine can be used in a file that imports the module of that name")
  func name() {
    #expect(!CommandLine.arguments.isEmpty)
  }

  @Test("An option of the default verb selects this verb, and an option of another verb does not")
  func optionOfDefaultVerb() throws {
    let list = Command("list", "Lists.", options: [Option("history", short: "H", "Older ones.")])
    let show = Command("show", "Shows.", options: [Option("all", "All.")])
    let program = Command("tool", "A tool.", commands: [list, show], defaultCommand: "list")
    let line = try program.parse(["--history"])
    #expect(line.path == ["list"] && line.flag("history"))
    #expect(try program.parse(["-H"]).path == ["list"])
    #expect(try program.parse(["show", "--all"]).path == ["show"])
    #expect(throws: UsageError.self) { try program.parse(["--all"]) }
    #expect(throws: UsageError.self) { try program.parse(["show", "--history"]) }
  }
}
