import Glibc
import Journal
import Loop

/// Measures, prints, and writes `bench.json`. It is meant for a release build and has no pass criteria. Words on the
/// command line select parts: engine, noise, mesh, feed, visitors, check, service, field, social, presence.
@main
struct Bench {
  static func main() {
    signal(SIGPIPE, SIG_IGN)
    Log.shared.level = .error
    // The measured process must use memory as the service does, so freed memory is returned to the kernel.
    ProcessMemory.giveBackFreed()
    EventLoop.shared.soon {
      Task { @LoopActor in
        let words = Swift.CommandLine.arguments.dropFirst()
        func wants(_ part: String) -> Bool { words.isEmpty || words.contains(part) }
        var figures: [Figure] = []
        if wants("engine") { figures += EngineBench.run() }
        if wants("noise") { figures += NoiseBench.run() }
        if wants("mesh") { figures += MeshBench.run() + MeshFileBench.run() }
        if wants("feed") { figures += FeedBench.run() }
        if wants("visitors") { figures += VisitorsBench.run() }
        if wants("check") { figures += await CheckBench.run() }
        do {
          if wants("feed") { figures += try await ServiceBench().runFeed() }
          if wants("social") { figures += try await SocialBench.run() }
          if wants("presence") { figures += try await PresenceBench.run() }
          if wants("service") { figures += try await ServiceBench().run() }
          if wants("field") { figures += try await ServiceBench().runField() }
        } catch {
          FileHandleError.write("The services were not measured: \(error)\n")
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

/// Processor time of this thread, in seconds. Unlike wall-clock time it does not depend on other load of the machine.
func processorTime() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
