import Common
import Testing

@testable import BlueZ

@Suite("When a stopped scan is restarted")
struct ScanWatchTests {
  private static func second(_ seconds: Double) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }

  /// The watch of a scan with a result at second 0.
  private static func watch() -> ScanWatch {
    var watch = ScanWatch()
    watch.scan(true, at: .zero)
    watch.heard(at: .zero)
    return watch
  }

  @Test("No scan restart is due before the first scan result, or without a scan")
  func quiet() {
    var watch = ScanWatch()
    #expect(watch.deadline == nil)
    watch.scan(true, at: .zero)
    #expect(watch.deadline == nil && !watch.isDue(at: Self.second(10_000)))
    watch.scan(false, at: Self.second(1))
    watch.heard(at: Self.second(2))
    #expect(watch.deadline == nil)
    watch.scan(true, at: Self.second(3))
    #expect(watch.deadline == nil, "a report without a scan is not a result")
  }

  @Test("A scan restart is due 30 s after the last result, then after 60 s, then every 120 s")
  func pauses() {
    var watch = Self.watch()
    watch.heard(at: Self.second(7))
    var due = 37.0
    for (number, pause) in [60.0, 120, 120, 120].enumerated() {
      #expect(watch.deadline == Self.second(due))
      #expect(!watch.isDue(at: Self.second(due - 0.001)) && watch.isDue(at: Self.second(due)))
      let restart = watch.restart(at: Self.second(due))
      #expect(restart.isFirst == (number == 0))
      due += pause
    }
    watch.heard(at: Self.second(due))
    #expect(watch.deadline == Self.second(due + 30))
  }

  @Test("A scan that is started again has 30 s for its first result")
  func beginsAgain() {
    var watch = Self.watch()
    _ = watch.restart(at: Self.second(30))
    watch.scan(false, at: Self.second(40))
    #expect(watch.deadline == nil)
    watch.scan(true, at: Self.second(100))
    #expect(watch.deadline == Self.second(130))
    watch.scan(true, at: Self.second(120))
    #expect(watch.deadline == Self.second(130), "it goes on")
  }

  @Test("A scan restart is reported once, and again only after a result has proved that scanning had stopped")
  func reports() {
    var watch = Self.watch()
    var now = 0.0
    /// Lets the next restart become due, and returns whether it is reported.
    func isReported() -> Bool {
      now += 30
      return watch.restart(at: Self.second(now)).isNews
    }
    #expect(isReported())
    #expect(!isReported(), "the same silence")
    now += 10.001
    watch.heard(at: Self.second(now))
    #expect(!isReported(), "a peer that is found later may have arrived only then")
    now += 10
    watch.heard(at: Self.second(now))
    #expect(isReported())
  }

  @Test("A postponed scan restart is due 5 s later")
  func postponed() {
    var watch = Self.watch()
    watch.postpone(at: Self.second(30))
    #expect(!watch.isDue(at: Self.second(34.9)) && watch.isDue(at: Self.second(35)))
  }
}
