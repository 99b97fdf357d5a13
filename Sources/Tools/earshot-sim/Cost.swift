import CommandLine
import Glibc

/// The resources that a simulation used; they vary between runs.
struct Cost {
  /// The resources that this process has used so far.
  struct Moment {
    /// Wall-clock time in seconds.
    let wall: Double
    let processor: Double
    /// Peak memory so far, in KiB.
    let memory: Int

    static func now() -> Moment {
      var time = timespec()
      clock_gettime(CLOCK_MONOTONIC, &time)
      var usage = rusage()
      getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
      func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
      return Moment(
        wall: Double(time.tv_sec) + Double(time.tv_nsec) / 1e9,
        processor: seconds(usage.ru_utime) + seconds(usage.ru_stime), memory: usage.ru_maxrss)
    }
  }

  private let wall: Double
  private let processor: Double
  private let memory: Int
  private let signatures: (asked: Int, computed: Int)

  init(from begin: Moment, to end: Moment, _ signatures: (asked: Int, computed: Int)) {
    (wall, processor, memory) = (end.wall - begin.wall, end.processor - begin.processor, end.memory)
    self.signatures = signatures
  }

  var sentence: String {
    "took \(Int(wall)) s, \(Int(processor)) s of processor time; at most \(memory / 1024) MiB; \(signatures.asked) "
      + "signatures requested, \(signatures.computed) computed"
  }

  /// The resources as JSON. The peak memory is that of the process, and therefore the maximum of all simulations so
  /// far.
  ///
  /// - Parameter name: the name of the simulation; empty if there is only one.
  func json(_ name: String) -> JSONValue {
    [
      "name": .string(name), "wallSeconds": .double(wall), "processorSeconds": .double(processor),
      "mostMemoryKiB": .int(Int64(memory)), "signaturesAsked": .int(Int64(signatures.asked)),
      "signaturesComputed": .int(Int64(signatures.computed)),
    ]
  }
}
