import Calendar
import Common
import Glibc
import MeshNaming
import MeshViews
import Terminal

/// Sanitises texts of peers for screens and lines.
enum ChatText {
  /// Maximum length of a text: 64 KiB.
  private static let limit = 1 << 16
  private static let mostParagraphs = 100

  /// Returns the lines of a text, sanitised for a screen; at most 100, followed by a count of the rest.
  static func paragraphs(_ text: String) -> [String] { paragraphs(text, settle: DisplayText.settled) }

  private static func paragraphs(_ text: String, settle: (String) -> String) -> [String] {
    var all = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    while all.count > 1, all.last?.isEmpty == true { all.removeLast() }
    let shown = all.prefix(mostParagraphs).map { settle(cleaned($0)) }
    return shown + (all.count > mostParagraphs ? ["(\(all.count - mostParagraphs) more lines)"] : [])
  }

  /// Joins the lines of `paragraphs` to one line.
  static func line(_ text: String) -> String { paragraphs(text).joined(separator: " ⏎ ") }

  /// Joins the lines to one line for output that is not laid out: `earshot mesh log` shows the same characters.
  static func plainLine(_ text: String) -> String {
    paragraphs(text, settle: { $0 }).joined(separator: " ⏎ ")
  }

  /// Name for the screen, without points for line breaks.
  static func name(_ name: String, width: Int = 20) -> String {
    let settled = DisplayText.settled(name)
    guard DisplayText.width(settled) > width else { return unbroken(settled) }
    // Keeps the digits that distinguish peers of one name.
    if let mark = settled.lastIndex(of: "#"), [5, 17].contains(settled[mark...].count) {
      let room = width - settled[mark...].count
      return unbroken(DisplayText.cut(String(settled[..<mark]), to: max(1, room)) + settled[mark...])
    }
    return unbroken(DisplayText.cut(settled, to: width))
  }

  /// Label of a peer in a line or a sentence: ``MeshNameIndex/label(of:settle:)``.
  static func label(_ book: MeshNameIndex, _ id: String, nickname: String? = nil) -> String {
    guard let nickname else { return unbroken(book.label(of: id) { name($0) }) }
    return unbroken(book.label(of: id, nickname: nickname) { name($0) })
  }

  private static func unbroken(_ text: String) -> String {
    String(text.map { $0 == " " ? "\u{A0}" : $0 })
  }

  private static func cleaned(_ line: Substring) -> String {
    let spaced = line.contains("\t") ? String(line.flatMap { $0 == "\t" ? "    " : String($0) }) : String(line)
    return PrintableText.clean(spaced, limit: limit)
  }
}

/// Day and time of day of a message, formatted for people.
public struct ChatMoment: Sendable, Equatable {
  /// Date, such as `Sunday 22 November 2026`.
  public let day: String
  /// Time of day, such as `15:46`.
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

  private static let days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
  private static let months = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
  ]

  init(_ parts: tm) {
    func two(_ value: Int32) -> String { value < 10 ? "0\(value)" : "\(value)" }
    let day = Self.days.indices.contains(Int(parts.tm_wday)) ? Self.days[Int(parts.tm_wday)] : ""
    let month = Self.months.indices.contains(Int(parts.tm_mon)) ? Self.months[Int(parts.tm_mon)] : ""
    self.init(
      day: "\(day) \(parts.tm_mday) \(month) \(Int(parts.tm_year) + 1900)",
      time: "\(two(parts.tm_hour)):\(two(parts.tm_min))")
  }
}
