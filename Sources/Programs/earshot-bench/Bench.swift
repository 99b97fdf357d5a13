import Glibc
import Journal
import Loop

/// Measures, prints, and writes `bench.json`. Meant for a release build; nothing here passes or fails.
@main
struct Bench {
  static func main() {
    signal(SIGPIPE, SIG_IGN)
    Log.shared.level = .error
    // As in the service.
    ProcessMemory.giveBackFreed()
    EventLoop.shared.soon {
      Task { @LoopActor in
        var figures = EngineBench.run() + NoiseBench.run() + MeshBench.run() + VisitorsBench.run()
        do {
          figures += try await ServiceBench().run()
        } catch {
          FileHandleError.write("The service was not measured: \(error)\n")
        }
        Report.show(figures)
        EventLoop.shared.stop()
      }
    }
    EventLoop.shared.run()
  }
}

enum FileHandleError {
  static func write(_ text: String) {
    let bytes = Array(text.utf8)
    _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
  }
}
