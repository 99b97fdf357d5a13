/// Cycles through the completions of a word.
struct Completion: Sendable, Equatable {
  private let before: String
  private let offers: [String]
  private var next = 0

  /// - Parameters:
  ///   - head: text before the cursor.
  ///   - names: names of peers, the likeliest first.
  /// - Returns: nil without a completion.
  init?(_ head: String, commands: [String], names: [String]) {
    if head.hasPrefix("/"), !head.contains(" ") {
      before = ""
      offers = commands.filter { $0.hasPrefix(head.lowercased()) }.map { $0 + " " }
    } else if let space = head.firstIndex(of: " "), commands.contains(String(head[..<space])) {
      let begin = head.index(after: space)
      before = String(head[..<begin])
      // A name with spaces is quoted.
      offers = Self.matching(String(head[begin...]), names).map { ($0.contains(" ") ? "\"\($0)\"" : $0) + " " }
    } else {
      let begin = head.lastIndex(of: " ").map { head.index(after: $0) } ?? head.startIndex
      before = String(head[..<begin])
      let end = before.isEmpty ? ": " : " "
      offers = Self.matching(String(head[begin...]), names).map { $0 + end }
    }
    if offers.isEmpty { return nil }
  }

  /// Next completion, with the text before it.
  mutating func take() -> String {
    defer { next = (next + 1) % offers.count }
    return before + offers[next]
  }

  private static func matching(_ word: String, _ names: [String]) -> [String] {
    let wanted = word.lowercased()
    let bare = wanted.hasPrefix("\"") ? String(wanted.dropFirst()) : wanted
    return names.filter { $0.lowercased().hasPrefix(bare) }
  }
}
