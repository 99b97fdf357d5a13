import Glibc

/// Times of day and dates in the time zone of this machine.
///
/// `localtime_r` alone uses the time zone that the process began with. Each function here reads the zone again (`tzset`), so a
/// program that runs for days follows a change of `/etc/localtime`. All other code uses these functions.
public enum LocalTime {
  /// The date and time of day; nil for a year that `tm` cannot hold.
  ///
  /// - Parameter milliseconds: since 1970-01-01 UTC.
  public static func parts(_ milliseconds: Int64) -> tm? {
    tzset()
    var seconds = time_t(floorSeconds(milliseconds))
    var parts = tm()
    return localtime_r(&seconds, &parts) == nil ? nil : parts
  }

  /// `2026-08-17 12:01:40`; `?` for a year that cannot be written.
  ///
  /// - Parameter milliseconds: since 1970-01-01 UTC.
  public static func text(_ milliseconds: UInt64) -> String {
    guard let parts = parts(Int64(clamping: milliseconds)) else { return "?" }
    let date = "\(Int(parts.tm_year) + 1900)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))"
    return date + " " + clock(parts)
  }

  /// `12:01:40`; `?` for a year that cannot be written.
  ///
  /// - Parameter milliseconds: since 1970-01-01 UTC.
  public static func clock(_ milliseconds: UInt64) -> String {
    parts(Int64(clamping: milliseconds)).map(clock) ?? "?"
  }

  /// `12:01:40`
  public static func clock(_ parts: tm) -> String {
    "\(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))"
  }

  private static func floorSeconds(_ milliseconds: Int64) -> Int64 {
    milliseconds >= 0 ? milliseconds / 1000 : (milliseconds - 999) / 1000
  }

  private static func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
