import CommandLine
import Loop

/// A command of the tool: its grammar and its action. It has either verbs below it or an action.
public struct Verb: Sendable {
  /// The action of a command, given the service and the command line.
  public typealias Body = @LoopActor @Sendable (Client, ParsedCommand) async throws(Failure) -> ExitCode

  public let grammar: Command
  /// The actions, by the words below this verb's own name that lead to them.
  private let bodies: [[String]: Action]

  /// The body of a verb, and the access that it needs.
  struct Action: Sendable {
    let need: Need
    let target: ToolTarget
    let body: Body

    /// Checks the access of the user, and runs the body.
    @LoopActor
    func run(_ line: ParsedCommand) async throws(Failure) -> ExitCode {
      let client = Client(line, target: target)
      if need.isGroup(line) { try await client.checkGroup() }
      return try await body(client, line)
    }
  }

  /// - Parameters:
  ///   - need: the access that is checked before `body` is called.
  ///   - target: the daemon that `body` talks to.
  public init(
    _ name: String, _ summary: String, options: [Option] = [], arguments: [Argument] = [], need: Need = .group,
    of target: ToolTarget = .earshotd, _ body: @escaping Body
  ) {
    grammar = Command(name, summary, options: options, arguments: arguments)
    bodies = [[]: Action(need: need, target: target, body: body)]
  }

  /// - Parameter defaultVerb: the name of the default verb among `verbs`.
  public init(_ name: String, _ summary: String, verbs: [Verb], defaultVerb: String? = nil) {
    grammar = Command(name, summary, commands: verbs.map(\.grammar), defaultCommand: defaultVerb)
    bodies = verbs.reduce(into: [:]) { bodies, verb in
      for (path, body) in verb.bodies { bodies[[verb.grammar.name] + path] = body }
    }
  }

  /// - Parameter path: the words of the command line, this verb's name first.
  func action(at path: [String]) -> Action? {
    path.first == grammar.name ? bodies[Array(path.dropFirst())] : nil
  }
}
