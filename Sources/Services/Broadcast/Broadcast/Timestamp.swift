import PBLEC

/// A moment as programs read it: `2026-03-09T12:00:00Z`, in UTC.
enum Timestamp {
  /// - Parameter milliseconds: since 1970; earlier moments are 1970's first one.
  static func text(_ milliseconds: Int64) -> String {
    let seconds = max(0, milliseconds / 1000)
    func two(_ number: Int64) -> String { (number < 10 ? "0" : "") + "\(number)" }
    let time = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map(two).joined(separator: ":")
    return "\(CalendarDay(Int(clamping: seconds / 86_400)))T\(time)Z"
  }
}
