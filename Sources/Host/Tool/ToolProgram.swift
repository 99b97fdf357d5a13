import CommandLine
import Loop

/// The complete command-line tool: the common commands and those of the services.
public struct ToolProgram: Sendable {
  /// The grammar of all commands, from which parsing, help and completion follow.
  public let grammar: Command
  private let verbs: [Verb]
  private let version: String

  /// - Parameter services: in the order of their lines in `status`.
  public init(_ services: [ToolPart], version: String) {
    self.version = version
    let status = Verb(
      "status", "Show the state of the service.",
      options: [
        Option("wait", value: .seconds("SECONDS"), "Wait up to this time for the service to start."),
        Option("counters", "Show all counters that are not 0, and what each one counts."),
      ], need: .look
    ) { client, line async throws(Failure) in
      try await StatusCommand(client, line, services).run()
    }
    let monitor = Verb("monitor", "Write every event of the service with its time, object and a sentence.", need: .look)
    {
      client, line async throws(Failure) in
      try await MonitorCommand(client, line, services).run()
    }
    let explain = Verb(
      "explain", "Explain an error code, a counter, a state or a message of the journal.",
      arguments: [Argument(.text("CODE"), "The code. Without it, all codes are listed.", count: .optional)],
      need: .nothing
    ) { _, line throws(Failure) in try ExplainCommand(services).run(line) }
    verbs = [status] + services.flatMap(\.verbs) + [monitor, explain]
    grammar = Command(
      "earshot", "Control earshotd, the Bluetooth proximity service.",
      details: [
        "Exit status: " + ExitCode.allCases.map { "\($0.rawValue) \($0.meaning)" }.joined(separator: ", ") + "."
      ],
      options: [
        Option("bus", value: .text("ADDRESS"), "system (the default), session, or a D-Bus address."),
        Option("bus-name", value: .text("NAME"), "The service's name on the bus (org.earshot)."),
        Option("json", "Write JSON."),
        Option("timeout", value: .seconds("SECONDS"), "Maximum time for an answer (25)."),
        Option("version", "Print the version and exit."),
      ],
      commands: verbs.map(\.grammar) + [Self.completion], defaultCommand: "status")
  }

  private static let completion = Command(
    "completion", "Write the completion file for a shell.",
    arguments: [Argument(.choice("SHELL", Shell.allCases.map(\.rawValue)), "bash, zsh or fish.")])

  /// Executes a command line, with its output on standard output and standard error.
  ///
  /// - Parameter words: the words after the program's name.
  @LoopActor
  public func run(_ words: [String]) async -> ExitCode {
    let line: ParsedCommand
    do throws(UsageError) {
      line = try grammar.parse(words)
    } catch {
      Output.complain("\(error.sentence)\n\(error.hint)")
      return .usage
    }
    if line.wantsHelp {
      Output.write(line.help + "\n")
      return .ok
    }
    if line.flag("version") {
      Output.line("\(grammar.name) \(version)")
      return .ok
    }
    do throws(Failure) {
      return try await perform(line)
    } catch {
      Output.complain(error.text)
      return error.code
    }
  }

  @LoopActor
  private func perform(_ line: ParsedCommand) async throws(Failure) -> ExitCode {
    if line.path == [Self.completion.name] { return try printCompletion(line) }
    for verb in verbs {
      if let action = verb.action(at: line.path) { return try await action.run(line) }
    }
    // This is unreachable: the grammar is made from the verbs, so every parsed path leads to an action.
    throw Failure(.usage, "\(line.path.joined(separator: " ")) does nothing.")
  }

  private func printCompletion(_ line: ParsedCommand) throws(Failure) -> ExitCode {
    guard let shell = line.argument("SHELL").flatMap(Shell.init(rawValue:)) else {
      throw Failure(.usage, "Completion is available for bash, zsh and fish.")
    }
    Output.write(grammar.completion(for: shell))
    return .ok
  }
}
