/// A moment on a monotonic clock, in whole nanoseconds since the clock's origin. Instants of different clocks have nothing
/// in common.
///
/// Engines get instants as arguments and never read a clock; in tests the instants are virtual.
public struct Instant: InstantProtocol, Hashable, Sendable {
  /// Nanoseconds since the clock's origin.
  public let nanoseconds: Int64

  public init(nanoseconds: Int64) {
    self.nanoseconds = nanoseconds
  }

  /// The origin of a clock. Virtual time starts here.
  public static let zero = Instant(nanoseconds: 0)

  /// The instant `duration` later, or the last one that can be expressed.
  public func advanced(by duration: Duration) -> Instant {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
    return Instant(nanoseconds: overflow ? (duration < .zero ? .min : .max) : sum)
  }

  /// The time from here to `other`, or the longest one that can be expressed.
  public func duration(to other: Instant) -> Duration {
    let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(nanoseconds)
    return .nanoseconds(overflow ? (other > self ? .max : .min) : difference)
  }

  public static func < (left: Instant, right: Instant) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}

extension Duration {
  /// The duration in milliseconds, rounded towards zero and cut to what 64 bits hold in nanoseconds.
  public var wholeMilliseconds: Int64 { wholeNanoseconds / 1_000_000 }

  /// The duration in nanoseconds, cut to what 64 bits hold (292 years).
  public var wholeNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    guard !overflow else { return seconds < 0 ? .min : .max }
    let (sum, carried) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
    return carried ? (seconds < 0 ? .min : .max) : sum
  }
}
