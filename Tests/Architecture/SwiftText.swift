/// Swift source with everything that is not code taken out, so that a rule about words cannot be fooled by a comment or a
/// string, nor miss what stands inside an interpolation.
struct SwiftText {
  /// The code: comments and literal text are blanks, lines are where they were.
  let code: String
  /// The literals that have no interpolation, in order of appearance.
  let literals: [String]
  let tokens: [Token]
  let imports: [Import]

  init(_ source: String) {
    var scanner = Scanner(source)
    scanner.code(until: nil)
    code = String(scanner.output)
    literals = scanner.literals
    tokens = Self.tokens(of: scanner.output)
    imports = Self.imports(among: tokens)
  }

  /// A word or a single sign, and what touches it on the left.
  struct Token: Equatable {
    let text: String
    let line: Int
    /// The sign or letter immediately before, without a blank between; nil after a blank.
    let before: Character?

    var isWord: Bool { text.first.map(Token.isWordPart) ?? false }
    static func isWordPart(_ character: Character) -> Bool {
      character.isLetter || character.isNumber || character == "_"
    }
  }

  private static func tokens(of code: [Character]) -> [Token] {
    var tokens: [Token] = []
    var word = ""
    var beforeWord: Character?
    var previous: Character?
    var line = 1
    for character in code + ["\n"] {
      if Token.isWordPart(character) {
        if word.isEmpty { beforeWord = previous }
        word.append(character)
      } else {
        if !word.isEmpty { tokens.append(Token(text: word, line: line, before: beforeWord)) }
        word = ""
        // Backticks make a word of a keyword; a name in them is the same name.
        if !character.isWhitespace, character != "`" {
          tokens.append(Token(text: String(character), line: line, before: previous))
        }
      }
      if character.isNewline { line += 1 }
      previous = character.isWhitespace ? nil : character
    }
    return tokens
  }

  /// A module named by an import declaration, in whatever form: attributes, access level, one symbol, a submodule.
  struct Import: Equatable {
    let module: String
    let line: Int
  }

  private static func imports(among tokens: [Token]) -> [Import] {
    let kinds: Set = ["typealias", "struct", "class", "enum", "protocol", "let", "var", "func"]
    return tokens.indices.compactMap { index in
      guard tokens[index].text == "import", tokens[index].before != ".", tokens[index].before != "`" else { return nil }
      let rest = tokens[(index + 1)...].drop { kinds.contains($0.text) }
      guard let name = rest.first, name.isWord else { return nil }
      return Import(module: name.text, line: name.line)
    }
  }
}

/// Walks Swift source once, keeping code and blanking the rest.
private struct Scanner {
  private let source: [Character]
  private var position = 0
  private(set) var output: [Character] = []
  private(set) var literals: [String] = []

  init(_ source: String) {
    self.source = Array(source)
  }

  private func sees(_ text: String) -> Bool { source[position...].starts(with: text) }
  private func count(of character: Character) -> Int { source[position...].prefix { $0 == character }.count }

  private mutating func keep() {
    output.append(source[position])
    position += 1
  }

  private mutating func blank(_ count: Int = 1) {
    for character in source[position...].prefix(count) { output.append(character.isNewline ? character : " ") }
    position = min(position + count, source.count)
  }

  /// Scans code to the end or, inside an interpolation, over the parenthesis that closes it.
  mutating func code(until end: Character?) {
    var depth = 0
    while position < source.count {
      if sees("//") {
        while position < source.count, !source[position].isNewline { blank() }
      } else if sees("/*") {
        comment()
      } else if let hashes = literalStart() {
        literal(hashes: hashes)
      } else {
        if source[position] == "(" { depth += 1 }
        if source[position] == ")" {
          if end == ")", depth == 0 { return blank() }
          depth -= 1
        }
        keep()
      }
    }
  }

  private mutating func comment() {
    var depth = 0
    while position < source.count {
      if sees("/*") {
        depth += 1
        blank(2)
      } else if sees("*/") {
        depth -= 1
        blank(2)
        if depth == 0 { return }
      } else {
        blank()
      }
    }
  }

  /// The number of `#` before the quote, if a string literal starts here.
  private func literalStart() -> Int? {
    let hashes = count(of: "#")
    return source.dropFirst(position + hashes).first == "\"" ? hashes : nil
  }

  private mutating func literal(hashes: Int) {
    let marks = String(repeating: "#", count: hashes)
    blank(hashes)
    let quotes = sees("\"\"\"") ? "\"\"\"" : "\""
    blank(quotes.count)
    var text = ""
    var interpolated = false
    while position < source.count, !sees(quotes + marks) {
      if sees("\\" + marks + "(") {
        interpolated = true
        blank(2 + hashes)
        code(until: ")")
      } else if sees("\\" + marks) {
        text.append(contentsOf: source[position...].prefix(2 + hashes))
        blank(2 + hashes)
      } else {
        text.append(source[position])
        blank()
      }
    }
    blank(quotes.count + hashes)
    if !interpolated { literals.append(text) }
  }
}
