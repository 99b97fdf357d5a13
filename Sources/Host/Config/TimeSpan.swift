/// Notation of time spans: `40ms`, `30s`, `1min 30s`, `2h`.
enum TimeSpan {
  private static let milliseconds: [(unit: String, count: Int64)] = [
    ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1),
  ]
  /// Maximum time span, 366 days in milliseconds. It prevents an overflow of the sum.
  private static let limit: Int64 = 366 * 24 * 3_600_000

  /// Parses the sum of the parts; a part without a unit counts as seconds. Nil if the text is not a time span, or is
  /// longer than 366 days.
  static func parse(_ text: String) -> Duration? {
    var rest = text.utf8.filter { $0 != 0x20 && $0 != 0x09 }[...]
    var sum: Int64 = 0
    guard !rest.isEmpty else { return nil }
    while !rest.isEmpty {
      let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      rest = rest.dropFirst(digits.count)
      let letters = rest.prefix { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      rest = rest.dropFirst(letters.count)
      let name = letters.isEmpty ? "s" : String(decoding: letters, as: UTF8.self)
      guard let number = Int64(String(decoding: digits, as: UTF8.self)), number <= limit,
        let unit = milliseconds.first(where: { $0.unit == name })
      else { return nil }
      sum += number * unit.count
      guard sum <= limit else { return nil }
    }
    return .milliseconds(sum)
  }

  /// Formats the time span in the largest exact unit, with a resolution of one millisecond.
  static func show(_ duration: Duration) -> String {
    let count = duration.components.seconds * 1_000 + duration.components.attoseconds / 1_000_000_000_000_000
    guard count != 0, let unit = milliseconds.first(where: { count.isMultiple(of: $0.count) }) else { return "0s" }
    return "\(count / unit.count)\(unit.unit)"
  }
}
