import Common
import Loop
import TestSupport
import Testing

/// A write-behind queue whose worker the test controls. Writing the value 13 fails.
@LoopActor
private final class Stand {
  struct Full: Error {}

  let worker = HeldWorker()
  let queue: WriteBehind<Int, Full>
  private let values = Locked<[Int]>([])

  init() {
    queue = WriteBehind(worker) { [values] value in
      values.withLock { $0.append(value) }
      return value == 13 ? Full() : nil
    }
  }

  var written: [Int] { values.withLock { $0 } }
}

@Suite("Write-behind queue")
struct WriteBehindTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "Of several writes that wait in a write-behind queue only the last is executed, and every caller gets its outcome")
  @LoopActor
  func last() {
    let stand = Stand()
    let (worker, queue) = (stand.worker, stand.queue)
    var outcomes: [String] = []
    for value in 1...3 { queue.write(value) { outcomes.append("\(value) \($0 == nil)") } }
    queue.write(13) { outcomes.append("13 \($0 == nil)") }
    worker.release()
    #expect(stand.written == [1] && outcomes == ["1 true"])
    worker.release()
    #expect(stand.written == [1, 13] && outcomes == ["1 true", "2 false", "3 false", "13 false"])
    #expect(worker.held.isEmpty)
  }

  @Test("A write that is requested in the outcome handler of another write is executed by the write-behind queue")
  @LoopActor
  func next() {
    let stand = Stand()
    let (worker, queue) = (stand.worker, stand.queue)
    queue.write(1) { _ in queue.write(2) { _ in } }
    worker.release()
    worker.release()
    #expect(stand.written == [1, 2])
  }

  @Test("Writes in a write-behind queue wait until another operation of the queue has ended")
  @LoopActor
  func operation() {
    let stand = Stand()
    let (worker, queue) = (stand.worker, stand.queue)
    var outcomes: [Int] = []
    queue.run({ 7 }, then: { outcomes.append($0) })
    queue.write(1) { _ in }
    #expect(worker.held.count == 1)
    worker.release()
    #expect(outcomes == [7] && worker.held.count == 1)
    worker.release()
    #expect(stand.written == [1])
  }

  @Test("A write-behind queue is idle only after an operation requested during a write has ended, too")
  @LoopActor
  func operationDuringWrite() {
    let stand = Stand()
    let (worker, queue) = (stand.worker, stand.queue)
    var order: [String] = []
    queue.write(1) { _ in order.append("write") }
    queue.run({ 7 }, then: { order.append("operation \($0)") })
    queue.whenIdle { order.append("idle") }
    worker.release()
    #expect(order == ["write", "operation 7", "idle"])
  }

  @Test("A caller waiting for an idle queue is called once: at once, after the last write, or at its limit")
  @LoopActor
  func idle() {
    let stand = Stand()
    let (worker, queue) = (stand.worker, stand.queue)
    let clock = HandClock()
    var calls: [String] = []
    queue.whenIdle { calls.append("at once") }
    queue.write(1) { _ in }
    queue.whenIdle(within: .seconds(1), on: clock) { calls.append("limit") }
    queue.whenIdle(within: .seconds(9), on: clock) { calls.append("idle") }
    queue.whenIdle { calls.append("idle, no limit") }
    clock.advance(by: .seconds(1))
    #expect(calls == ["at once", "limit"])
    queue.write(2) { _ in }
    worker.release()
    #expect(calls.count == 2)
    worker.release()
    clock.advance(by: .seconds(9))
    #expect(calls == ["at once", "limit", "idle", "idle, no limit"])
  }
}
