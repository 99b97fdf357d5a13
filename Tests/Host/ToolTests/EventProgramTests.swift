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

  /// A worker whose work the test executes explicitly.
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

  @Test("An event whose --exec run the caller awaits, such as a credential, is never dropped for later events")
  func awaited() async {
    await LoopActor.run {
      let rig = Rig()
      var ends: [EventProgram.End] = []
      // The worker has the first event, so the others wait.
      rig.program.post(.int(0))
      rig.program.add(.string("credential")) { ends.append($0) }
      for number in 1...(EventProgram.waitingLimit + 5) { rig.program.post(.int(Int64(number))) }
      #expect(rig.program.dropped == 6)
      for _ in 0..<3 { rig.worker.step() }
      #expect(rig.texts == ["0\n", "\"credential\"\n", "7\n"] && ends == [.exited(0)])
    }
  }

  @Test("An --exec program that fails for every event is reported ten times, and then each hundredth time")
  func fails() async {
    await LoopActor.run {
      let rig = Rig()
      rig.answer(.notStarted(ENOENT))
      for number in 1...250 {
        rig.program.post(.int(Int64(number)))
        rig.worker.step()
      }
      #expect(rig.program.failed == 250 && rig.complaints.count == 12)
    }
  }

  @Test("At its end a command waits at most 60 s for the --exec runs of all events, and reports how many are left")
  func finish() async {
    await LoopActor.run {
      let (rig, time) = (Rig(), VirtualTime())
      var ends = 0
      rig.program.whenFinished(on: time) { ends += 1 }
      #expect(ends == 1)
      for number in 1...3 { rig.program.post(.int(Int64(number))) }
      rig.program.whenFinished(on: time) { ends += 1 }
      rig.worker.step()
      time.advance(by: .seconds(59))
      #expect(ends == 1)
      time.advance(by: .seconds(1))
      #expect(ends == 2 && rig.complaints.count == 1)
      #expect(rig.complaints.first?.hasSuffix("last events: 2.") == true)
      rig.program.whenFinished(on: time) { ends += 1 }
      while rig.worker.count > 0 { rig.worker.step() }
      #expect(ends == 3 && rig.complaints.count == 1)
    }
  }

  @Test("An --exec program that does not exist, or is not executable, is a usage error before the first event")
  func missing() async throws {
    let folder = try ScratchFolder()
    try folder.write([], to: "text")
    await LoopActor.run {
      for name in ["", "no-such-program", folder.path, folder.path("text"), "/nowhere/at/all"] {
        #expect(throws: Failure.self, "\(name)") { try EventProgram(name).check() }
      }
      for name in ["sh", "/bin/sh"] { #expect(throws: Never.self) { try EventProgram(name).check() } }
    }
  }

  @Test("An --exec program that exceeds its time limit is killed with the programs that it has started")
  func tooLong() throws {
    let folder = try ScratchFolder()
    let script = "#!/bin/sh\nsleep 600 &\necho $! >\"$0.pid\"\nwait\n"
    try folder.write(Array(script.utf8), to: "slow")
    chmod(folder.path("slow"), 0o700)
    var limit = Duration.milliseconds(250)
    var end = EventProgram.spawn(folder.path("slow"), [], limit: limit)
    // On a loaded machine the script may not have begun when the time is over.
    while !folder.exists("slow.pid"), limit < .seconds(60) {
      limit *= 2
      end = EventProgram.spawn(folder.path("slow"), [], limit: limit)
    }
    #expect(end == .timedOut)
    let words = String(decoding: try folder.read("slow.pid"), as: UTF8.self).split(separator: "\n")
    let child = try #require(words.first.flatMap { pid_t($0) })
    // The kernel removes a killed process after its parent has seen the end.
    while kill(child, 0) == 0, !Self.isZombie(child) { sched_yield() }
    #expect(kill(child, 0) != 0 || Self.isZombie(child))
  }

  private static func isZombie(_ process: pid_t) -> Bool {
    let status = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
    return status?.contains("State:\tZ") ?? true
  }

  @Test("Shell syntax in a peer's text reaches the --exec program unchanged")
  func noShell() throws {
    let folder = try ScratchFolder()
    try folder.write(Array("#!/bin/sh\ncat >\"$0.input\"\necho \"$#\" >\"$0.count\"\n".utf8), to: "handler")
    chmod(folder.path("handler"), 0o700)
    let text = "$(touch \(folder.path("trace"))); `touch \(folder.path("trace"))` | touch \(folder.path("trace"))"
    let input = JSONWriter.write(.object([.init("text", .string(text))]))
    #expect(EventProgram.spawn(folder.path("handler"), Array(input.utf8)) == .exited(0))
    #expect(String(decoding: try folder.read("handler.input"), as: UTF8.self) == input)
    #expect(String(decoding: try folder.read("handler.count"), as: UTF8.self) == "0\n")
    #expect(!folder.exists("trace"))
  }

  @Test("The --exec program can read its event from standard input, even if it is larger than a pipe's buffer")
  func real() {
    let large = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20)
    #expect(EventProgram.spawn("/bin/true", large) == .exited(0))
    #expect(EventProgram.spawn("/bin/false", large) == .exited(1))
    #expect(EventProgram.spawn("/nowhere/at/all", []) == .notStarted(ENOENT))
  }
}
