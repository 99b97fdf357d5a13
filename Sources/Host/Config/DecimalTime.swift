/// Decimal notation of short times: `11.25ms`, `0.5s`, with a resolution of one microsecond.
enum DecimalTime {
  /// Converts a time to microseconds.
  static func count(_ time: Duration) -> Int64 {
    time.components.seconds * 1_000_000 + time.components.attoseconds / 1_000_000_000_000
  }

  /// Nil if the text is not a time. A sign is not allowed, and at most six digits before the point.
  static func parse(_ text: String) -> Duration? {
    let isMilliseconds = text.hasSuffix("ms")
    guard isMilliseconds || text.hasSuffix("s") else { return nil }
    let places = isMilliseconds ? 3 : 6
    let parts = text.dropLast(isMilliseconds ? 2 : 1).split(separator: ".", omittingEmptySubsequences: false)
    let decimals = parts.count == 2 ? String(parts[1]) : ""
    guard let whole = parts.first, (1...2).contains(parts.count), (1...6).contains(whole.utf8.count),
      parts.count == 1 || (1...places).contains(decimals.utf8.count)
    else { return nil }
    let digits = String(whole) + decimals + String(repeating: "0", count: places - decimals.utf8.count)
    guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let count = Int64(digits)
    else { return nil }
    return .microseconds(count)
  }

  /// Formats the time in seconds if that needs no decimals, otherwise in milliseconds.
  static func show(_ time: Duration) -> String {
    let count = count(time)
    let isSeconds = count.isMultiple(of: 1_000_000)
    let (unit, places) = isSeconds ? (Int64(1_000_000), 0) : (Int64(1_000), 3)
    var text = "\(count / unit)"
    let rest = count % unit
    if rest != 0 {
      var decimals = String(repeating: "0", count: places - "\(rest)".utf8.count) + "\(rest)"
      while decimals.hasSuffix("0") { decimals.removeLast() }
      text += "." + decimals
    }
    return text + (isSeconds ? "s" : "ms")
  }
}
