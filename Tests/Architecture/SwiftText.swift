/// Swift source without comments and literal text, so that rules about words are not misled by a comment or a
/// string, nor miss an interpolation.
struct SwiftText {
  /// The code: comments and literal text are blanks, lines are where they were.
  let code: String
  /// The literals that have no interpolation, in order of appearance.
  let literals: [String]
  let tokens: [Token]
  let imports: [Import]

  init(_ source: String) {
    var scanner = Scanner(source)
    scanner.code(inside: false)
    code = String(decoding: scanner.output, as: UTF8.self)
    literals = scanner.literals
    tokens = Self.tokens(of: scanner.output)
    imports = Self.imports(among: tokens)
  }

  /// A word or a single character, and the character to its left.
  struct Token: Equatable {
    let text: String
    let line: Int
    /// The character immediately before, without a blank between; nil after a blank.
    let before: UInt8?

    var isWord: Bool { text.utf8.first.map(Token.isWordPart) ?? false }
    /// Whether a byte of UTF-8 is part of a name; no sign of Swift's own is outside of ASCII.
    static func isWordPart(_ byte: UInt8) -> Bool {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...:
        true
      default: false
      }
    }
  }

  private static func tokens(of code: [UInt8]) -> [Token] {
    var tokens: [Token] = []
    var word: Range<Int>?
    var line = 1
    func touching(_ index: Int) -> UInt8? { index > 0 && code[index - 1] > 0x20 ? code[index - 1] : nil }
    for (index, byte) in (code + [0x0A]).enumerated() {
      if Token.isWordPart(byte) {
        word = (word?.lowerBound ?? index)..<(index + 1)
        continue
      }
      if let range = word {
        let text = String(decoding: code[range], as: UTF8.self)
        tokens.append(Token(text: text, line: line, before: touching(range.lowerBound)))
        word = nil
      }
      // Backticks turn a keyword into a name; they are not part of the name.
      if byte > 0x20, byte != UInt8(ascii: "`") {
        tokens.append(Token(text: String(UnicodeScalar(byte)), line: line, before: touching(index)))
      }
      if byte == 0x0A { line += 1 }
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
      guard tokens[index].text == "import", tokens[index].before != UInt8(ascii: "."),
        tokens[index].before != UInt8(ascii: "`")
      else { return nil }
      let rest = tokens[(index + 1)...].drop { kinds.contains($0.text) }
      guard let name = rest.first, name.isWord else { return nil }
      return Import(module: name.text, line: name.line)
    }
  }
}

/// Walks Swift source once, keeping code and blanking the rest.
private struct Scanner {
  private let source: [UInt8]
  private var position = 0
  private(set) var output: [UInt8] = []
  private(set) var literals: [String] = []

  init(_ source: String) {
    self.source = Array(source.utf8)
  }

  private func sees(_ text: String) -> Bool { source[position...].starts(with: text.utf8) }

  private mutating func keep() {
    output.append(source[position])
    position += 1
  }

  private mutating func blank(_ count: Int = 1) {
    for byte in source[position...].prefix(count) { output.append(byte == 0x0A ? byte : 0x20) }
    position = min(position + count, source.count)
  }

  /// Scans code to the end or, inside an interpolation, over the parenthesis that closes it.
  mutating func code(inside interpolation: Bool) {
    var depth = 0
    while position < source.count {
      switch source[position] {
      case UInt8(ascii: "/") where sees("//"):
        while position < source.count, source[position] != 0x0A { blank() }
      case UInt8(ascii: "/") where sees("/*"):
        comment()
      case UInt8(ascii: "\""), UInt8(ascii: "#"):
        if let hashes = literalStart() { literal(hashes: hashes) } else { keep() }
      case UInt8(ascii: ")") where interpolation && depth == 0:
        return blank()
      case let byte:
        if byte == UInt8(ascii: "(") { depth += 1 }
        if byte == UInt8(ascii: ")") { depth -= 1 }
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
    let hashes = source[position...].prefix { $0 == UInt8(ascii: "#") }.count
    return source.dropFirst(position + hashes).first == UInt8(ascii: "\"") ? hashes : nil
  }

  private mutating func literal(hashes: Int) {
    let marks = String(repeating: "#", count: hashes)
    blank(hashes)
    let quotes = sees("\"\"\"") ? "\"\"\"" : "\""
    blank(quotes.count)
    var text: [UInt8] = []
    var interpolated = false
    while position < source.count, !sees(quotes + marks) {
      if sees("\\" + marks + "(") {
        interpolated = true
        blank(2 + hashes)
        code(inside: true)
      } else if sees("\\" + marks) {
        text.append(contentsOf: source[position...].prefix(2 + hashes))
        blank(2 + hashes)
      } else {
        text.append(source[position])
        blank()
      }
    }
    blank(quotes.count + hashes)
    if !interpolated { literals.append(String(decoding: text, as: UTF8.self)) }
  }
}
