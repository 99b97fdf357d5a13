import Common

/// A one-line progress display. It only creates the text: the caller returns the cursor to the start of the line.
///
/// ```
/// Receiving  ██████████▍░░░░░░░░░   52%  110 KiB of 210 KiB  35 KiB/s
/// ```
public struct ProgressBar: Sendable, Equatable {
  public var label: String
  /// Number of bytes that were transferred so far.
  public var done: Int
  /// Total number of bytes; nil if unknown.
  public var total: Int?
  /// Transfer rate in bytes per second; nil if unknown.
  public var rate: Int?

  public init(label: String, done: Int = 0, total: Int? = nil, rate: Int? = nil) {
    self.label = label
    self.done = done
    self.total = total
    self.rate = rate
  }

  /// The fraction from 0 to 1; nil if the total is unknown, and 1 if the total is 0.
  public var fraction: Double? {
    total.map { $0 > 0 ? min(1, max(0, Double(done) / Double($0))) : 1 }
  }

  /// The line with at most `width` columns. If space is short, the rate is omitted first, then the amounts, then the
  /// bar.
  public func line(width: Int) -> String {
    let amounts = humanBytes(max(0, done)) + (total.map { " of " + humanBytes($0) } ?? "")
    var details = [fraction.map { Self.padded(Self.percent($0)) }, amounts, rate.map { humanBytes($0) + "/s" }]
      .compactMap { $0 }
    let label = DisplayText.cut(PrintableText.clean(self.label), to: max(0, width / 2))
    let room = { (details: [String]) in width - DisplayText.width(([label] + details).joined(separator: "  ")) - 2 }
    while details.count > 1, room(details) < Self.narrowest { details.removeLast() }
    var parts = [label]
    if let fraction, room(details) >= Self.narrowest {
      parts.append(Self.bar(fraction, width: min(40, room(details))))
    } else if let fraction {
      details[0] = Self.percent(fraction)
    }
    return DisplayText.cut((parts + details).joined(separator: "  "), to: width)
  }

  /// Minimum width of a bar in columns. A narrower bar is omitted.
  private static let narrowest = 8

  /// The percentage, rounded down: 100% means complete.
  private static func percent(_ fraction: Double) -> String { "\(Int(fraction * 100))%" }

  /// The percentage padded to four columns, so that the bar's length is constant.
  private static func padded(_ percent: String) -> String {
    String(repeating: " ", count: max(0, 4 - percent.utf8.count)) + percent
  }

  private static func bar(_ fraction: Double, width: Int) -> String {
    let eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
    let filled = Int(fraction * Double(width * 8))
    let bar = String(repeating: "█", count: filled / 8) + eighths[filled % 8]
    return bar + String(repeating: "░", count: width - bar.count)
  }
}
