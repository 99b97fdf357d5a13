import Common
import Testing

@Suite("Instant and Duration")
struct InstantTests {
  static let end = Instant(nanoseconds: .max)
  static let start = Instant(nanoseconds: .min)
  static let longest = Duration(secondsComponent: .max, attosecondsComponent: 999_999_999_999_999_999)
  static let longestBack = Duration(secondsComponent: .min, attosecondsComponent: 0)

  @Test(
    "`Instant.advanced` adds nanoseconds, and clamps the result to the earliest and latest instants",
    arguments: [
      (.zero, .zero, .zero),
      (.zero, .seconds(1), Instant(nanoseconds: 1_000_000_000)),
      (.zero, .milliseconds(-1), Instant(nanoseconds: -1_000_000)),
      (Instant(nanoseconds: 5), .nanoseconds(7), Instant(nanoseconds: 12)),
      (end, .zero, end), (end, .nanoseconds(1), end), (end, longest, end),
      (Instant(nanoseconds: .max - 1), .nanoseconds(1), end),
      (Instant(nanoseconds: .max - 1), .nanoseconds(2), end),
      (.zero, longest, end), (.zero, longestBack, start),
      (start, .zero, start), (start, .nanoseconds(-1), start), (start, longestBack, start),
      (Instant(nanoseconds: .min + 1), .nanoseconds(-2), start),
      (start, .nanoseconds(1), Instant(nanoseconds: .min + 1)),
      (start, longest, Instant(nanoseconds: -1)), (end, longestBack, Instant(nanoseconds: -1)),
    ] as [(Instant, Duration, Instant)])
  func advanced(from: Instant, by duration: Duration, to: Instant) {
    #expect(from.advanced(by: duration) == to)
  }

  @Test(
    "`Instant.duration` is the difference of two instants, clamped to 292 years",
    arguments: [
      (.zero, .zero, .zero),
      (.zero, Instant(nanoseconds: 3), .nanoseconds(3)),
      (Instant(nanoseconds: 3), .zero, .nanoseconds(-3)),
      (.zero, end, .nanoseconds(Int64.max)), (.zero, start, .nanoseconds(Int64.min)),
      (start, end, .nanoseconds(Int64.max)), (end, start, .nanoseconds(Int64.min)),
      (Instant(nanoseconds: -1), end, .nanoseconds(Int64.max)),
      (Instant(nanoseconds: 1), start, .nanoseconds(Int64.min)),
      (start, start, .zero), (end, end, .zero),
    ] as [(Instant, Instant, Duration)])
  func duration(from: Instant, to: Instant, is duration: Duration) {
    #expect(from.duration(to: to) == duration)
  }

  @Test("An instant advanced by the duration to a second instant equals the second instant")
  func roundTrip() {
    for nanoseconds in [0, 1, -1, 999_999_999, 1_000_000_000, -1_000_000_001, 1 << 62] as [Int64] {
      let instant = Instant(nanoseconds: nanoseconds)
      #expect(Instant.zero.advanced(by: Instant.zero.duration(to: instant)) == instant)
    }
  }

  @Test(
    "`Duration.wholeNanoseconds` drops fractions of a nanosecond, and is clamped to 64 bits",
    arguments: [
      (.zero, 0), (.nanoseconds(1), 1), (.nanoseconds(-1), -1),
      (Duration(secondsComponent: 0, attosecondsComponent: 999_999_999), 0),
      (Duration(secondsComponent: 0, attosecondsComponent: -999_999_999), 0),
      (Duration(secondsComponent: 0, attosecondsComponent: 1_999_999_999), 1),
      (Duration(secondsComponent: 0, attosecondsComponent: -1_999_999_999), -1),
      (.seconds(-1) + .nanoseconds(1), -999_999_999),
      (.nanoseconds(Int64.max), .max), (.nanoseconds(Int64.min), .min),
      (.nanoseconds(Int64.max) + .nanoseconds(1), .max), (.nanoseconds(Int64.min) - .nanoseconds(1), .min),
      (.seconds(9_223_372_036), 9_223_372_036_000_000_000), (.seconds(9_223_372_037), .max),
      (.seconds(-9_223_372_036), -9_223_372_036_000_000_000), (.seconds(-9_223_372_037), .min),
      (longest, .max), (longestBack, .min),
    ] as [(Duration, Int64)])
  func wholeNanoseconds(of duration: Duration, are nanoseconds: Int64) {
    #expect(duration.wholeNanoseconds == nanoseconds)
  }

  @Test("Instants are ordered by their nanoseconds")
  func order() {
    let instants = [Self.start, Instant(nanoseconds: -1), .zero, Instant(nanoseconds: 1), Self.end]
    #expect(instants.reversed().sorted() == instants)
    #expect(!(Instant.zero < .zero))
  }
}
