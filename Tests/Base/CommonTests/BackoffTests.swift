import Common
import Testing

@Suite("Backoff")
struct BackoffTests {
  private func pauses(_ backoff: inout Backoff, _ count: Int) -> [Duration] {
    (0..<count).map { _ in backoff.next() }
  }

  @Test("Backoff pauses double from the minimum to the maximum, and a reset starts again at the minimum")
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

  @Test("With `forAttempts`, the first pauses stay at the maximum, and later ones grow again from the minimum")
  func urgent() {
    var backoff = Backoff(upTo: .seconds(2), forAttempts: 4)
    let milliseconds = pauses(&backoff, 7).map { $0 / Duration.milliseconds(1) }
    #expect(milliseconds == [500, 1000, 2000, 2000, 4000, 8000, 16_000])
  }

  @Test("The backoff pause after a number of failures doubles with each failure after the first, up to the maximum")
  func counted() {
    let backoff = Backoff(from: .seconds(2), upTo: .seconds(10))
    let expected = [2, 2, 4, 8, 10, 10].map { Duration.seconds($0) }
    #expect((0..<6).map { backoff.pause(afterFailures: $0) } == expected)
    #expect(backoff.pause(afterFailures: .max) == .seconds(10))
    #expect(Backoff(from: .zero, upTo: .seconds(1)).pause(afterFailures: .max) == .zero)
    #expect(Backoff(from: .seconds(9), upTo: .seconds(5)).pause(afterFailures: 1) == .seconds(5))
  }

  @Test("The first backoff pause is the minimum, and each further pause is twice the previous one, up to the maximum")
  func followed() {
    let backoff = Backoff(from: .seconds(2), upTo: .seconds(10))
    #expect(backoff.pause(after: .zero) == .seconds(2))
    #expect(backoff.pause(after: .seconds(3)) == .seconds(6))
    #expect(backoff.pause(after: .seconds(8)) == .seconds(10))
  }
}
