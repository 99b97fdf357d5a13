import Calendar

/// Formats times for people. Times are milliseconds since 1970-01-01 UTC; 0 means no time.
enum Moment {
  /// Formats as `14:02:11` on the current day, otherwise as `11-28 14:02`; empty for 0.
  static func short(_ time: UInt64, now: UInt64) -> String {
    guard time > 0 else { return "" }
    let text = LocalTime.text(time)
    if text.prefix(dateLength) == LocalTime.text(now).prefix(dateLength) { return LocalTime.clock(time) }
    return text.count == fullLength ? String(text.dropFirst(yearLength).dropLast(secondsLength)) : text
  }

  /// Formats as `2026-11-28 14:02:11 (23 h ago)`; `-` for 0.
  static func full(_ time: UInt64, now: UInt64) -> String {
    guard time > 0 else { return "-" }
    let distance = time > now ? "in \(span(time - now))" : "\(span(now - time)) ago"
    return "\(LocalTime.text(time)) (\(distance))"
  }

  /// Formats as `in 23 h`, or `now` for a past time; empty for 0.
  static func left(until time: UInt64, now: UInt64) -> String {
    time == 0 ? "" : time > now ? "in \(span(time - now))" : "now"
  }

  /// Formats a duration as `45 s`, `12 min`, `23 h` or `6 days`: the largest unit with a value of at least two, rounded
  /// up.
  static func span(_ milliseconds: UInt64) -> String {
    func up(_ unit: UInt64) -> UInt64 { milliseconds / unit + (milliseconds % unit > 0 ? 1 : 0) }
    if milliseconds <= 120_000 { return "\(up(1000)) s" }
    if milliseconds <= 7_200_000 { return "\(up(60_000)) min" }
    return milliseconds <= 172_800_000 ? "\(up(3_600_000)) h" : "\(up(86_400_000)) days"
  }

  /// Lengths of parts of `2026-11-28 14:02:11`.
  private static let fullLength = 19
  private static let dateLength = 10
  private static let yearLength = 5
  private static let secondsLength = 3
}
