/// A time of this machine's wall clock, with the local day on which it falls.
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

/// Day of the local calendar: days since 1970-01-01, shown as 2026-03-09.
public struct CalendarDay: Hashable, Sendable, CustomStringConvertible {
  public let number: Int

  /// - Parameter number: clamped to 0 to 3,652,000, which is about ten thousand years.
  public init(_ number: Int) {
    self.number = min(max(number, 0), 3_652_000)
  }

  /// Proleptic Gregorian date. Years are counted from March, so that the leap day is the last day of a year.
  public var description: String {
    let days = number + 719_468
    let era = days / 146_097
    let dayOfEra = days % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shifted = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * shifted + 2) / 5 + 1
    let month = shifted < 10 ? shifted + 3 : shifted - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return "\(year)-\(Self.two(month))-\(Self.two(day))"
  }

  private static func two(_ number: Int) -> String { (number < 10 ? "0" : "") + "\(number)" }
}
