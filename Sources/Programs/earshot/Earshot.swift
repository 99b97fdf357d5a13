import CommandLine
import Glibc
import Journal
import Listing
import Loop
import Tool

/// The command-line tool: a client of the service like any other, with nothing behind it but D-Bus.
@main
struct Earshot {
  static func main() {
    signal(SIGPIPE, SIG_IGN)
    // What goes wrong is this command's failure, said once.
    Log.shared.level = .error
    let words = Array(Swift.CommandLine.arguments.dropFirst())
    let tool = ToolProgram(ServiceList.all.toolParts, version: ServiceList.version)
    let outcome = Outcome()
    EventLoop.shared.soon {
      Task { @LoopActor in
        outcome.code = await tool.run(words)
        EventLoop.shared.stop()
      }
    }
    EventLoop.shared.run()
    exit(outcome.code.rawValue)
  }
}

/// What the run comes to. The loop's thread writes it while it runs; `main`, the same thread, reads it after the end.
private final class Outcome: @unchecked Sendable {
  var code = ExitCode.failed
}
