/// Time of the machine's clock.
public struct CalendarTime: Hashable, Sendable {
  /// Milliseconds since 1970 (UTC).
  public var milliseconds: Int64
  /// Day of the local calendar.
  public var day: CalendarDay

  public init(milliseconds: Int64, day: CalendarDay) {
    (self.milliseconds, self.day) = (milliseconds, day)
  }

  /// 2026-01-01: a correct clock shows no earlier time.
  private static let earliest: Int64 = 1_767_225_600_000

  /// Whether the clock can be correct: a machine without a battery-backed clock starts in 1970.
  public var isSet: Bool { milliseconds >= Self.earliest }
}
