import CommandLine
import Glibc
import Journal
import Listing
import Loop
import Tool
import ToolList

/// The command-line tool, which uses the services only through D-Bus, like any other program. It is a client by itself
/// for social servers at a URL.
@main
struct Earshot {
  static func main() {
    signal(SIGPIPE, SIG_IGN)
    // Only errors are logged, because commands report their failures themselves.
    Log.shared.level = .error
    let words = Array(Swift.CommandLine.arguments.dropFirst())
    let tool = ToolProgram(ToolList.parts, version: ServiceList.version)
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

/// The result of the run. The loop's thread writes it during the run; `main`, on the same thread, reads it after the
/// end.
private final class Outcome: @unchecked Sendable {
  var code = ExitCode.failed
}
