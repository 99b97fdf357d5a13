/// The valid values of an option or an argument. They are checked when the line is parsed, and offered by completion.
///
/// Each case carries the placeholder in the help text: `NAME`.
public enum ValueShape: Sendable, Equatable {
  case text(String)
  /// A path of a file or directory.
  case file(String)
  /// A whole number.
  case integer(String, ClosedRange<Int>)
  /// A time in seconds, with at most nine digits after the point.
  case seconds(String)
  /// One of these words.
  case choice(String, [String])

  /// The placeholder in the help text.
  public var name: String {
    switch self {
    case .text(let name), .file(let name), .integer(let name, _), .seconds(let name), .choice(let name, _): name
    }
  }

  /// The error of `text`, which completes "… is not …"; nil if the value is valid.
  func objection(to text: String) -> String? {
    switch self {
    case .text, .file:
      return nil
    case .integer(_, let range):
      guard let number = Int(text), range.contains(number) else {
        return "a number from \(range.lowerBound) to \(range.upperBound)"
      }
    case .seconds:
      if Self.seconds(text) == nil { return "a time in seconds" }
    case .choice(_, let words):
      if !words.contains(text) { return "one of \(words.joined(separator: ", "))" }
    }
    return nil
  }

  /// Parses `2` or `0.5`, up to a million seconds.
  static func seconds(_ text: String) -> Duration? {
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    let isNumber = parts.allSatisfy { part in
      !part.isEmpty && part.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
    guard isNumber, let whole = parts.first.flatMap({ Int64($0) }), whole <= 1_000_000 else { return nil }
    guard parts.count == 2, let fraction = parts.last else { return .seconds(whole) }
    let padded = fraction + String(repeating: "0", count: max(0, 9 - fraction.utf8.count))
    guard fraction.utf8.count <= 9, let nanoseconds = Int64(padded) else { return nil }
    return .seconds(whole) + .nanoseconds(nanoseconds)
  }
}
