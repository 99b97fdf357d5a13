import Glibc
import PBLEC

/// The local calendar of this machine.
public enum LocalDay {
  /// - Parameter milliseconds: since 1970.
  public static func day(_ milliseconds: Int64) -> CalendarDay {
    // The zone may be another one than before.
    tzset()
    var seconds = time_t(clamping: milliseconds / 1000)
    var parts = tm()
    let offset = localtime_r(&seconds, &parts) == nil ? 0 : Int64(parts.tm_gmtoff)
    return CalendarDay(Int(clamping: (milliseconds / 1000 + offset) / 86_400))
  }
}
