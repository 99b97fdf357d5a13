import Common
import Journal
import Testing

@Suite struct RateLimiterTests {
  private static func second(_ number: Int64) -> Instant { .zero.advanced(by: .seconds(number)) }

  @Test("The log rate limiter allows a number of lines per minute for each key, and counts refused ones")
  func window() {
    var limiter = RateLimiter<String>(perMinute: 2)
    let steps: [(String, Int64, Bool)] = [
      ("a", 0, true), ("a", 1, true), ("a", 2, false), ("a", 3, false), ("b", 3, true), ("a", 59, false),
      ("a", 60, true), ("a", 61, true), ("a", 62, false),
    ]
    for (key, second, expected) in steps {
      let allowed = limiter.allow(key, at: Self.second(second))
      #expect(allowed == expected, "\(key) at \(second) s")
    }
    #expect(limiter.suppressed == 4)
    let taken = limiter.takeSuppressed()
    #expect(taken == 4)
    #expect(limiter.suppressed == 0)
  }

  @Test("For 10,000 different keys, the rate limiter allows at most the lines of its bounded table")
  func changingKeys() {
    var limiter = RateLimiter<Int>(perMinute: 3, capacity: 10)
    let allowed = (0..<10_000).filter { limiter.allow($0, at: .zero) }.count
    #expect(allowed == 10 + 3)
    #expect(limiter.suppressed == 10_000 - 13)
  }

  @Test("`wouldAllow` predicts the result of `allow`, and does not count as a line")
  func asking() {
    var (limiter, unasked) = (RateLimiter<Int>(perMinute: 2, capacity: 3), RateLimiter<Int>(perMinute: 2, capacity: 3))
    var answers: Set<Bool> = []
    for step in 0..<2000 as Range<Int64> {
      // Five keys compete for three table entries, with pauses in which the entries' minutes expire.
      let (key, now) = (Int(step % 5), Self.second(step * 7))
      let (asked, again) = (limiter.wouldAllow(key, at: now), limiter.wouldAllow(key, at: now))
      let (allowed, expected) = (limiter.allow(key, at: now), unasked.allow(key, at: now))
      #expect(asked == allowed && again == allowed && allowed == expected, "step \(step)")
      answers.insert(allowed)
    }
    #expect(answers == [true, false] && limiter.total == unasked.total)
  }

  @Test("A key in the rate limiter's table keeps its allowance while new keys fill the table")
  func knownKey() {
    var limiter = RateLimiter<Int>(perMinute: 2, capacity: 1)
    let first = limiter.allow(0, at: .zero)
    for stranger in 1...100 { _ = limiter.allow(stranger, at: .zero) }
    let second = limiter.allow(0, at: .zero)
    #expect(first && second)
  }

  @Test("After a minute, old keys leave a full rate limiter table, and new keys enter it")
  func expiry() {
    var limiter = RateLimiter<Int>(perMinute: 1, capacity: 2)
    let first = (0..<5).filter { limiter.allow($0, at: .zero) }
    #expect(first == [0, 1, 2])
    let later = (5..<10).filter { limiter.allow($0, at: Self.second(60)) }
    #expect(later == [5, 6, 7])
  }
}
