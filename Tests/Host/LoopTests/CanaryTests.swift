import Common
import Loop
import TestSupport
import Testing

@Suite("A canary through a worker", .timeLimit(.minutes(10)))
struct CanaryTests {
  @Test("A worker works as long as its canaries come back within the limit; one that hangs does not, until it goes on")
  func hanging() async {
    await onLoop {
      let worker = HeldWorker()
      let clock = HandClock()
      let canary = Canary(through: worker, clock, limit: .seconds(10))
      #expect(canary.isBack() && canary.isBack())
      #expect(worker.held.count == 1, "one is on its way at a time")
      clock.advance(by: .seconds(9))
      #expect(canary.isBack())
      clock.advance(by: .seconds(1))
      #expect(!canary.isBack())
      worker.release()
      #expect(canary.isBack())
      #expect(worker.held.count == 1, "the next one is on its way")
    }
  }
}
