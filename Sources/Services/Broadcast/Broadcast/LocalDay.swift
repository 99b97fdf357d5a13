import Calendar
import PBLEC

/// Local calendar of this machine.
public enum LocalDay {
  /// - Parameter milliseconds: since 1970.
  public static func day(_ milliseconds: Int64) -> CalendarDay {
    let offset = LocalTime.parts(milliseconds).map { Int64($0.tm_gmtoff) } ?? 0
    return CalendarDay(Int(clamping: (milliseconds / 1000 + offset) / 86_400))
  }
}
