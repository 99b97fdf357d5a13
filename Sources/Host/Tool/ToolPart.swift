import CommandLine
import Loop

/// The part of the tool that a service provides: its commands, its part of `earshot status`, sentences for its events
/// and counters, and the meanings of its codes.
public struct ToolPart: Sendable {
  /// Every object of the service on the bus, by path.
  public typealias Objects = [String: Client.Properties]

  public let verbs: [Verb]
  /// The service's lines of `earshot status`, each with its newline; empty if there is nothing to show.
  public let status: @LoopActor @Sendable (Objects) -> String

  /// Returns an event as a sentence; nil if this service has none for it.
  let event: @LoopActor @Sendable (ServiceEvent) -> String?
  /// The meanings of the service's counters; nil if it has none.
  public let counters: CounterMeanings?
  /// The meanings of the service's codes, for `earshot explain`.
  let codes: [CodeMeaning]

  public init(
    verbs: [Verb] = [], status: @escaping @LoopActor @Sendable (Objects) -> String = { _ in "" },
    event: @escaping @LoopActor @Sendable (ServiceEvent) -> String? = { _ in nil }, counters: CounterMeanings? = nil,
    codes: [CodeMeaning] = []
  ) {
    self.verbs = verbs
    self.status = status
    self.event = event
    self.counters = counters
    self.codes = codes
  }
}

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

  /// The action of a command.
  ///
  /// - Parameter path: the words of the command line, this verb's name first.
  func action(at path: [String]) -> Action? {
    path.first == grammar.name ? bodies[Array(path.dropFirst())] : nil
  }
}

/// A part of the service that the configuration can switch off. It then has no object on the bus.
public struct Feature: Sendable {
  /// The name of the feature, which completes "The … is off".
  public let name: String
  /// The feature's section of the configuration.
  public let section: String

  public init(_ name: String, section: String) {
    self.name = name
    self.section = section
  }

  /// The failure of the feature's commands if the configuration has switched it off.
  public var isOff: Failure {
    Failure(
      .failed,
      "The \(name) is off. Put Enabled=yes into the section [\(section)] of /etc/earshot/earshot.conf, then: "
        + "sudo systemctl restart earshotd")
  }
}
