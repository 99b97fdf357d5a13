import Common
import Loop
import TestSupport
import Testing

@Suite("Health checks of worker threads", .timeLimit(.minutes(10)))
struct CanaryTests {
  @Test("A worker is healthy while its canary jobs return within 10 s, and becomes healthy again after a hang")
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
