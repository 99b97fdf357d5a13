/// What may stand for an option's value or an argument: checked when the line is parsed, offered when it is completed.
///
/// Each case carries the word that stands for the value in the help text: `NAME`.
public enum ValueShape: Sendable, Equatable {
  case text(String)
  /// The path of a file or directory.
  case file(String)
  /// A whole number.
  case integer(String, ClosedRange<Int>)
  /// A time in seconds, with at most nine digits after the point.
  case seconds(String)
  /// One of these words.
  case choice(String, [String])

  /// The word in the help text.
  public var name: String {
    switch self {
    case .text(let name), .file(let name), .integer(let name, _), .seconds(let name), .choice(let name, _): name
    }
  }

  /// What is wrong with `text`, completes "… is not …"; nil if nothing is.
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

  /// `2`, `0.5`, up to a million seconds.
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
