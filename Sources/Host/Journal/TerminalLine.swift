import Calendar
import Glibc

/// A log record formatted for a person: `21:08:31.250 warning  The radio is gone.  adapter=hci0`.
struct TerminalLine {
  let text: String

  /// - Parameter time: the wall-clock time of the line, which is shown in local time.
  init(_ record: LogRecord, time: timespec, colour: Bool) {
    var line = Style.dim.around(Self.clock(time), if: colour)
    let level = record.level.name + String(repeating: " ", count: 7 - record.level.name.utf8.count)
    line += " " + Style(record.level).around(level, if: colour) + "  " + record.text
    if !record.fields.isEmpty {
      let fields = record.fields.map { "\($0.shortName)=\($0.value)" }.joined(separator: " ")
      line += "  " + Style.dim.around(fields, if: colour)
    }
    text = line + "\n"
  }

  /// Writes the line to a file descriptor, with several calls if necessary; on an error the rest is lost.
  func write(to descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if written > 0 {
        rest = rest.dropFirst(written)
      } else if written == 0 || errno != EINTR {
        return
      }
    }
  }

  /// Formats the local time as `HH:MM:SS.mmm`.
  private static func clock(_ time: timespec) -> String {
    let milliseconds = Int64(time.tv_nsec / 1_000_000)
    let clock = LocalTime.clock(UInt64(max(0, Int64(time.tv_sec)) * 1000 + milliseconds))
    return clock + ".\(padded(Int(milliseconds), 3))"
  }

  private static func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }

  /// The colours and attributes of a log line.
  private enum Style: String {
    case plain = ""
    case dim = "\u{1B}[2m"
    case red = "\u{1B}[1;31m"
    case yellow = "\u{1B}[33m"
    case bold = "\u{1B}[1m"

    init(_ level: LogLevel) {
      switch level {
      case .error: self = .red
      case .warning: self = .yellow
      case .notice: self = .bold
      case .info: self = .plain
      case .debug: self = .dim
      }
    }

    func around(_ text: String, if colour: Bool) -> String {
      colour && self != .plain ? rawValue + text + "\u{1B}[0m" : text
    }
  }
}
