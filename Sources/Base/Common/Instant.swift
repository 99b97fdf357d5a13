/// A moment on a monotonic clock, in whole nanoseconds since the clock's origin. Instants of different clocks cannot be
/// compared.
///
/// Engines receive instants as arguments and never read a clock; in tests the instants are virtual.
public struct Instant: InstantProtocol, Hashable, Sendable {
  /// Nanoseconds since the clock's origin.
  public let nanoseconds: Int64

  public init(nanoseconds: Int64) {
    self.nanoseconds = nanoseconds
  }

  /// The origin of a clock. Virtual time starts here.
  public static let zero = Instant(nanoseconds: 0)

  /// The instant `duration` later, limited to the range of `Int64` nanoseconds.
  public func advanced(by duration: Duration) -> Instant {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
    return Instant(nanoseconds: overflow ? (duration < .zero ? .min : .max) : sum)
  }

  /// The time from this instant to `other`, limited to the range of `Int64` nanoseconds.
  public func duration(to other: Instant) -> Duration {
    let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(nanoseconds)
    return .nanoseconds(overflow ? (other > self ? .max : .min) : difference)
  }

  public static func < (left: Instant, right: Instant) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}

extension Duration {
  /// The duration in milliseconds, rounded towards zero and limited to the range of `Int64` nanoseconds.
  public var wholeMilliseconds: Int64 { wholeNanoseconds / 1_000_000 }

  /// The duration in nanoseconds, limited to the range of `Int64` (292 years).
  public var wholeNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    guard !overflow else { return seconds < 0 ? .min : .max }
    let (sum, carried) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
    return carried ? (seconds < 0 ? .min : .max) : sum
  }
}
