import Terminal

/// The line of input that the user edits, with its cursor.
struct InputLine: Sendable, Equatable {
  /// Maximum length of a message, in bytes.
  static let longest = 1 << 16

  private(set) var characters: [Character] = []
  private(set) var cursor = 0

  var text: String { String(characters) }
  var isEmpty: Bool { characters.isEmpty }
  /// The text before the cursor.
  var head: String { String(characters[..<cursor]) }

  init(_ text: String = "") {
    characters = Array(text)
    cursor = characters.count
  }

  /// Inserts a text at the cursor.
  ///
  /// - Returns: false if the text would exceed `longest`.
  @discardableResult
  mutating func insert(_ text: String) -> Bool {
    let clean = Self.clean(text)
    guard self.text.utf8.count + clean.utf8.count <= Self.longest else { return false }
    // A combining mark joins the character before it.
    let before = cursor > 0 ? String(characters[cursor - 1]) : ""
    let joined = Array(before + clean)
    characters.replaceSubrange(cursor - (cursor > 0 ? 1 : 0)..<cursor, with: joined)
    cursor += joined.count - (cursor > 0 ? 1 : 0)
    return true
  }

  mutating func replaceHead(_ head: String) {
    let tail = characters[cursor...]
    characters = Array(head)
    cursor = characters.count
    characters += tail
  }

  mutating func backspace() {
    guard cursor > 0 else { return }
    cursor -= 1
    characters.remove(at: cursor)
  }

  mutating func delete() {
    if cursor < characters.count { characters.remove(at: cursor) }
  }

  mutating func deleteWord() {
    var begin = cursor
    while begin > 0, characters[begin - 1].isWhitespace { begin -= 1 }
    while begin > 0, !characters[begin - 1].isWhitespace { begin -= 1 }
    characters.removeSubrange(begin..<cursor)
    cursor = begin
  }

  mutating func deleteHead() {
    characters.removeSubrange(..<cursor)
    cursor = 0
  }

  mutating func deleteTail() { characters.removeSubrange(cursor...) }

  mutating func move(by step: Int) { cursor = min(max(0, cursor + step), characters.count) }
  mutating func moveToBegin() { cursor = 0 }
  mutating func moveToEnd() { cursor = characters.count }

  /// Visible part of the line for a number of columns, including the cursor's, and the cursor's column.
  func window(_ columns: Int) -> (text: String, cursor: Int) {
    let shown = characters.map { $0.isNewline ? "⏎" : DisplayText.settled(String($0)) }
    let widths = shown.map { DisplayText.width($0) }
    var begin = cursor
    var column = 0
    // The cursor takes one column.
    while begin > 0, column + widths[begin - 1] < columns {
      begin -= 1
      column += widths[begin]
    }
    var text = ""
    var used = 0
    for index in begin..<shown.count {
      guard used + widths[index] <= columns else { break }
      text += shown[index]
      used += widths[index]
    }
    return (text, column)
  }

  /// Removes control characters other than line ends.
  private static func clean(_ text: String) -> String {
    var result = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\n": result.append(scalar)
      case "\t": result.append(" ")
      default: if scalar.properties.generalCategory != .control { result.append(scalar) }
      }
    }
    return String(result)
  }
}

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

  /// Returns the whole line with the next of the possible completions.
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
