import Calendar
import Glibc

/// Formatted time.
public struct ChatMoment: Sendable, Equatable {
  /// `Sunday 22 November 2026`
  public let day: String
  /// `15:46`
  public let time: String

  public init(day: String, time: String) {
    self.day = day
    self.time = time
  }

  /// Formats a time in the machine's time zone.
  ///
  /// - Parameter milliseconds: since 1970.
  public static func local(_ milliseconds: UInt64) -> ChatMoment {
    LocalTime.parts(Int64(clamping: milliseconds)).map { ChatMoment($0) } ?? ChatMoment(day: "", time: "--:--")
  }

  /// Formats a time in UTC.
  public static func utc(_ milliseconds: UInt64) -> ChatMoment {
    var seconds = time_t(clamping: milliseconds / 1000)
    var parts = tm()
    guard gmtime_r(&seconds, &parts) != nil else { return ChatMoment(day: "", time: "--:--") }
    return ChatMoment(parts)
  }

  private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
  private static let months = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
  ]

  private init(_ parts: tm) {
    func two(_ value: Int32) -> String { value < 10 ? "0\(value)" : "\(value)" }
    let day = Self.days.indices.contains(Int(parts.tm_wday)) ? Self.days[Int(parts.tm_wday)] : ""
    let month = Self.months.indices.contains(Int(parts.tm_mon)) ? Self.months[Int(parts.tm_mon)] : ""
    self.init(
      day: "\(day) \(parts.tm_mday) \(month) \(Int(parts.tm_year) + 1900)",
      time: "\(two(parts.tm_hour)):\(two(parts.tm_min))")
  }
}
