import Glibc

/// A moment as a person reads it: `2026-08-17 12:01:40`, in the time zone of this machine.
enum LocalTime {
  /// - Parameter milliseconds: since 1970.
  static func text(_ milliseconds: UInt64) -> String {
    var seconds = time_t(clamping: milliseconds / 1000)
    var parts = tm()
    // Nil for a year that has no number.
    guard localtime_r(&seconds, &parts) != nil else { return "?" }
    let date = "\(Int(parts.tm_year) + 1900)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))"
    return date + " \(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))"
  }

  private static func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
