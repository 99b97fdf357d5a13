import Air
import CommandLine
import Foundation
import Loop
import TestSupport
import Testing

@testable import Tool

@Suite("The program started by --exec")
struct EventProgramTests {
  init() { EventLoop.shared.runInBackground() }

  /// A worker whose work a test performs.
  @LoopActor
  private final class HandWorker: Offloading {
    private var work: [@LoopActor () -> Void] = []
    func offload<Value: Sendable>(
      _ body: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
    ) {
      work.append { then(body()) }
    }

    var count: Int { work.count }
    func step() { if !work.isEmpty { work.removeFirst()() } }
  }

  @LoopActor
  private final class Rig {
    let worker = HandWorker()
    var complaints: [String] = []
    private let inputs = Inputs()
    private(set) lazy var program = EventProgram(
      "/usr/bin/handler", worker: worker, run: { [inputs] in inputs.take($1, for: $0) },
      complain: { [weak self] in self?.complaints.append($0) })

    var texts: [String] { inputs.texts }
    func answer(_ end: EventProgram.End) { inputs.end = end }
  }

  /// The inputs of all runs, and the result of the next one. It is used on the loop only.
  private final class Inputs: @unchecked Sendable {
    var texts: [String] = []
    var end = EventProgram.End.exited(0)

    func take(_ input: [UInt8], for program: String) -> EventProgram.End {
      texts.append(String(decoding: input, as: UTF8.self))
      return end
    }
  }

  @Test("The --exec program runs once for each event, one run after the other in order, with one line of JSON")
  func order() async {
    await LoopActor.run {
      let rig = Rig()
      for number in 1...3 { rig.program.post(.object([.init("message", .int(Int64(number)))])) }
      #expect(rig.worker.count == 1)
      for _ in 0..<3 { rig.worker.step() }
      #expect(rig.texts == ["{\"message\":1}\n", "{\"message\":2}\n", "{\"message\":3}\n"])
      #expect(rig.program.failed == 0 && rig.complaints.isEmpty)
    }
  }

  @Test("A failed run of the --exec program is counted and reported, and the next event is handled")
  func failure() async {
    await LoopActor.run {
      let rig = Rig()
      rig.answer(.exited(3))
      rig.program.post(.int(1))
      rig.worker.step()
      rig.answer(.signalled(9))
      rig.program.post(.int(2))
      rig.worker.step()
      #expect(rig.program.failed == 2)
      #expect(
        rig.complaints == [
          "/usr/bin/handler ended with status 3. Failed runs: 1.",
          "/usr/bin/handler was ended by signal 9. Failed runs: 2.",
        ])
    }
  }

  @Test("If more than 1000 events wait for the --exec program, the oldest is dropped, counted and reported")
  func slow() async {
    await LoopActor.run {
      let rig = Rig()
      // The first event is being handled.
      for number in 0...(EventProgram.waitingLimit + 2) { rig.program.post(.int(Int64(number))) }
      #expect(rig.program.dropped == 2 && rig.complaints.count == 1)
      rig.worker.step()
      rig.worker.step()
      #expect(rig.texts == ["0\n", "3\n"])
      while rig.worker.count > 0 { rig.worker.step() }
      #expect(rig.complaints.count == 2 && rig.complaints.last?.hasSuffix("Dropped events: 2.") == true)
    }
  }

  @Test("The --exec program can read its event from standard input, even if it is larger than a pipe's buffer")
  func real() {
    let large = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20)
    #expect(EventProgram.spawn("/bin/true", large) == .exited(0))
    #expect(EventProgram.spawn("/bin/false", large) == .exited(1))
    #expect(EventProgram.spawn("/nowhere/at/all", []) == .notStarted(ENOENT))
  }
}
