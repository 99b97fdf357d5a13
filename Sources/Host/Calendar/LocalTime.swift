import Glibc

/// Times of day and dates in the time zone of this machine.
///
/// `localtime_r` alone uses the time zone at the start of the process. Each function here reads the zone again
/// (`tzset`), so that a program that runs for days follows a change of `/etc/localtime`. All other code uses these
/// functions.
public enum LocalTime {
  /// The date and time of day; nil if `tm` cannot represent the year.
  ///
  /// - Parameter milliseconds: since 1970-01-01 UTC.
  public static func parts(_ milliseconds: Int64) -> tm? {
    tzset()
    var seconds = time_t(floorSeconds(milliseconds))
    var parts = tm()
    return localtime_r(&seconds, &parts) == nil ? nil : parts
  }

  /// Formats `2026-08-17 12:01:40`; `?` if `tm` cannot represent the year.
  ///
  /// - Parameter milliseconds: since 1970-01-01 UTC.
  public static func text(_ milliseconds: UInt64) -> String {
    guard let parts = parts(Int64(clamping: milliseconds)) else { return "?" }
    let date = "\(Int(parts.tm_year) + 1900)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))"
    return date + " " + clock(parts)
  }

  /// Formats `12:01:40`; `?` if `tm` cannot represent the year.
  ///
  /// - Parameter milliseconds: since 1970-01-01 UTC.
  public static func clock(_ milliseconds: UInt64) -> String {
    parts(Int64(clamping: milliseconds)).map(clock) ?? "?"
  }

  /// Formats `12:01:40`.
  public static func clock(_ parts: tm) -> String {
    "\(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))"
  }

  private static func floorSeconds(_ milliseconds: Int64) -> Int64 {
    milliseconds >= 0 ? milliseconds / 1000 : (milliseconds - 999) / 1000
  }

  private static func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
