/// Notation of numbers of bytes.
enum Size {
  private static let units = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)]

  /// Parses a size: `64K` is 65 536, `100` is 100. Nil if the text is not a size or exceeds `Int`.
  static func parse(_ text: String) -> Int? {
    let unit = units.first { text.uppercased().hasSuffix($0.0) }
    let digits = unit == nil ? text : String(text.dropLast())
    guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let number = Int(digits)
    else { return nil }
    let (size, overflow) = number.multipliedReportingOverflow(by: unit?.1 ?? 1)
    return overflow ? nil : size
  }

  /// Formats the size in the largest exact unit.
  static func show(_ size: Int) -> String {
    guard size > 0, let unit = units.first(where: { size.isMultiple(of: $0.1) }) else { return String(size) }
    return "\(size / unit.1)\(unit.0)"
  }
}
