import CommandLine
import Glibc
import Journal
import Loop

/// The command-line tool: a client of the service like any other, with nothing behind it but D-Bus.
@main
struct Earshot {
  static func main() {
    signal(SIGPIPE, SIG_IGN)
    // What goes wrong is this command's failure, said once.
    Log.shared.level = .error
    let words = Array(Swift.CommandLine.arguments.dropFirst())
    let outcome = Outcome()
    EventLoop.shared.soon {
      Task { @LoopActor in
        outcome.code = await run(words)
        EventLoop.shared.stop()
      }
    }
    EventLoop.shared.run()
    exit(outcome.code.rawValue)
  }

  @LoopActor
  private static func run(_ words: [String]) async -> ExitCode {
    let line: ParsedCommand
    do throws(UsageError) {
      line = try Grammar.command.parse(words)
    } catch {
      Output.complain("\(error.sentence)\n\(error.hint)")
      return .usage
    }
    if line.wantsHelp {
      Output.write(line.help + "\n")
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
  private static func perform(_ line: ParsedCommand) async throws(Failure) -> ExitCode {
    if line.path == ["completion"] { return try printCompletion(line) }
    let client = Client(line)
    switch line.path {
    case ["verifier", "start"]: return try await VerifierCommand(client, line).start()
    case ["verifier", "stop"]: return try await VerifierCommand(client, line).stop()
    case ["verifier", "show"]: return try await VerifierCommand(client, line).show()
    case ["verifier", "watch"]: return try await WatchCommand(client, line).run()
    case ["wallet", "send"]: return try await SendCommand(client, line).run()
    case ["monitor"]: return try await MonitorCommand(client, line).run()
    default: return try await StatusCommand(client, line).run()
    }
  }

  private static func printCompletion(_ line: ParsedCommand) throws(Failure) -> ExitCode {
    guard let shell = line.argument("SHELL").flatMap(Shell.init(rawValue:)) else {
      throw Failure(.usage, "There is completion for bash, zsh and fish.")
    }
    Output.write(Grammar.command.completion(for: shell))
    return .ok
  }
}

/// What the run comes to. The loop's thread writes it while it runs; `main`, the same thread, reads it after the end.
private final class Outcome: @unchecked Sendable {
  var code = ExitCode.failed
}
