import Common

/// One line that says how far a transfer is. It only makes the text: whoever prints it goes back to the line's start.
///
/// ```
/// Receiving  ██████████▍░░░░░░░░░   52%  110 KiB of 210 KiB  35 KiB/s
/// ```
public struct ProgressBar: Sendable, Equatable {
  public var label: String
  /// Bytes that are there.
  public var done: Int
  /// Bytes that there will be, if known.
  public var total: Int?
  /// Bytes in a second, if known.
  public var rate: Int?

  public init(label: String, done: Int = 0, total: Int? = nil, rate: Int? = nil) {
    self.label = label
    self.done = done
    self.total = total
    self.rate = rate
  }

  /// From 0 to 1; nil if the total is not known. Nothing of nothing is all of it.
  public var fraction: Double? {
    total.map { $0 > 0 ? min(1, max(0, Double(done) / Double($0))) : 1 }
  }

  /// The line, at most `width` columns: first the rate, then the amounts, then the bar give way to the label.
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

  /// A shorter bar says nothing.
  private static let narrowest = 8

  /// Cut, not rounded: 100% means all of it.
  private static func percent(_ fraction: Double) -> String { "\(Int(fraction * 100))%" }

  /// Always four columns, so that the bar keeps its length.
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
