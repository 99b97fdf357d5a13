import Common
import Testing

@Suite("Backoff")
struct BackoffTests {
  private func pauses(_ backoff: inout Backoff, _ count: Int) -> [Duration] {
    (0..<count).map { _ in backoff.next() }
  }

  @Test("Pauses double from the shortest to the longest, and begin again after a reset")
  func doubling() {
    var backoff = Backoff(from: .seconds(1), upTo: .seconds(5))
    #expect(backoff.isFresh)
    let first = pauses(&backoff, 5)
    #expect(first == [1, 2, 4, 5, 5].map { .seconds($0) } && !backoff.isFresh)
    backoff.reset()
    #expect(backoff.isFresh)
    let again = pauses(&backoff, 2)
    #expect(again == [1, 2].map { .seconds($0) })
  }

  @Test("With `forAttempts` the first pauses stay at the limit, and later ones grow again")
  func urgent() {
    var backoff = Backoff(upTo: .seconds(2), forAttempts: 4)
    let milliseconds = pauses(&backoff, 7).map { $0 / Duration.milliseconds(1) }
    #expect(milliseconds == [500, 1000, 2000, 2000, 4000, 8000, 16_000])
  }
}
