import Glibc

/// The time of day in the time zone of this machine.
enum ClockTime {
  /// `12:01:40`. A change of the time zone counts at once.
  static func now() -> String {
    tzset()
    var seconds = time(nil)
    var parts = tm()
    guard localtime_r(&seconds, &parts) != nil else { return "--:--:--" }
    return [parts.tm_hour, parts.tm_min, parts.tm_sec].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
  }
}
