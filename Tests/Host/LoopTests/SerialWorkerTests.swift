import Common
import Glibc
import Loop
import Testing

@Suite("Serial worker threads", .timeLimit(.minutes(10)))
struct SerialWorkerTests {
  @Test("Work is executed in order on one worker thread, and results arrive on the event loop")
  func order() async {
    await onLoop {
      let notes = Notes()
      let worker = SerialWorker()
      let thread = Locked<pthread_t?>(nil)
      await called { done in
        for number in 0..<100 {
          let work: @Sendable () -> Bool = {
            thread.withLock { thread in
              let isSame = thread.map { pthread_equal($0, pthread_self()) != 0 } ?? true
              thread = pthread_self()
              return isSame && !EventLoop.shared.isCurrent
            }
          }
          worker.offload(work) { isSame in
            notes.lines.append(isSame && EventLoop.shared.isCurrent ? "\(number)" : "stray")
            if number == 99 { done() }
          }
        }
        #expect(notes.lines.isEmpty)
      }
      #expect(notes.lines == (0..<100).map { "\($0)" })
    }
  }

  @Test("While a worker thread hangs, the event loop and other workers continue")
  func hanging() async {
    await onLoop {
      var ends: [Int32] = [0, 0]
      socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
      let (reading, writing) = (ends[0], ends[1])
      // More workers than threads in Swift's pool.
      let workers = (0..<sysconf(Int32(_SC_NPROCESSORS_ONLN)) + 2).map { _ in SerialWorker() }
      var left = workers.count
      await called { done in
        for worker in workers {
          worker.offload({
            var byte: UInt8 = 0
            return Glibc.read(reading, &byte, 1)
          }) { _ in
            left -= 1
            if left == 0 { done() }
          }
        }
        EventLoop.shared.offload({ 1 }) { _ in
          #expect(left == workers.count)
          _ = Glibc.write(writing, [UInt8](repeating: 0, count: workers.count), workers.count)
        }
      }
      close(reading)
      close(writing)
    }
  }

  @Test("A worker that is released still executes the work that was submitted to it")
  func ownerGoes() async {
    await onLoop {
      let notes = Notes()
      await called { done in
        var worker: SerialWorker? = SerialWorker()
        worker?.offload({ 1 }) { notes.lines.append("\($0)") }
        worker?.offload({ 2 }) {
          notes.lines.append("\($0)")
          done()
        }
        worker = nil
      }
      #expect(notes.lines == ["1", "2"])
    }
  }
}
