import Air
import CommandLine
import Common
import Glibc
import Journal
import Loop

/// The hub of the simulated radio: programs that connect to its socket are nodes in range of each other.
@main
struct EarshotAir {
  static func main() {
    exit(run(Array(Swift.CommandLine.arguments.dropFirst())).rawValue)
  }

  private static func run(_ words: [String]) -> ExitCode {
    let options: ParsedCommand
    do throws(UsageError) {
      options = try AirOptions.command.parse(words)
    } catch {
      complain("\(error.sentence)\n\(error.hint)")
      return .usage
    }
    if options.wantsHelp {
      say(options.help)
      return .ok
    }
    do throws(AirOptions.Mistake) {
      return serve(try AirOptions(options))
    } catch {
      complain("\(error.sentence)\nTry: earshot-air --help")
      return .usage
    }
  }

  private static func serve(_ options: AirOptions) -> ExitCode {
    signal(SIGPIPE, SIG_IGN)
    Log.configure(destination: .automatic(identifier: "earshot-air"), level: options.isVerbose ? .debug : .info)
    let outcome = Outcome()
    EventLoop.shared.soon {
      outcome.signals = [SIGTERM, SIGINT].map { EventLoop.shared.on(signal: $0) { outcome.end() } }
      let air = AirSpace(
        scheduler: EventLoop.shared, seed: options.seed, conditions: options.conditions,
        controller: options.controller)
      if let field = options.field { air.isInRange = field.isInRange }
      do throws(AirHubError) {
        outcome.hub = try AirHub(path: options.socket, air: air)
        say("The simulated radio is at \(options.socket).")
      } catch {
        complain(error.sentence)
        outcome.code = .failed
        outcome.end()
      }
    }
    EventLoop.shared.run()
    return outcome.code
  }

  /// Writes a line without buffering, so that it appears immediately.
  private static func say(_ text: String, to descriptor: Int32 = STDOUT_FILENO) {
    let bytes = Array("\(text)\n".utf8)
    _ = write(descriptor, bytes, bytes.count)
  }

  private static func complain(_ text: String) {
    say(text, to: STDERR_FILENO)
  }
}

/// The state and the result of the run. Only the loop's thread accesses it, before and during the run; `main` reads the
/// exit code after the run.
private final class Outcome: @unchecked Sendable {
  var code = ExitCode.ok
  var hub: AirHub?
  var signals: [Registration] = []

  @LoopActor
  func end() {
    hub?.close()
    hub = nil
    signals = []
    EventLoop.shared.stop()
  }
}
