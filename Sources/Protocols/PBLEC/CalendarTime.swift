/// What the clock of the machine says.
public struct CalendarTime: Hashable, Sendable {
  /// Milliseconds since 1970 (UTC).
  public var milliseconds: Int64
  /// The day of the local calendar.
  public var day: CalendarDay

  public init(milliseconds: Int64, day: CalendarDay) {
    (self.milliseconds, self.day) = (milliseconds, day)
  }

  /// 2026-01-01: no clock that is right is earlier.
  private static let earliest: Int64 = 1_767_225_600_000

  /// Whether the clock can be right at all: a machine without a battery for it begins in 1970.
  public var isSet: Bool { milliseconds >= Self.earliest }
}
