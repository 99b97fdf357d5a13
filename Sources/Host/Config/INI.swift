/// A parsed configuration file, in systemd's syntax (systemd.syntax(7)).
///
/// It consists of `[Section]` and `Key=Value` lines. Lines that begin with `#` or `;` are comments. Space around key
/// and value is ignored. A backslash at the end of a line joins the next one with a space, and skips comments in
/// between. An empty value is preserved; it resets the key.
///
/// One pair of quotation marks around a whole value is removed (`"Gate 1"`, `'Gate 1'`), so a quoted value may begin or
/// end with a space. The parser does not know the meaning of keys.
struct INI: Sendable, Equatable {
  struct Entry: Sendable, Equatable {
    let section: String
    let key: String
    let value: String
    /// Whether the value begins with a quotation mark `"` and does not end with one. The mark is then part of the
    /// value.
    var isUnclosed = false
    let file: String
    /// The number of the entry's first line, from 1.
    let line: Int
  }

  /// The first line of a section.
  struct Header: Sendable, Equatable {
    let section: String
    let file: String
    let line: Int
  }

  private(set) var entries: [Entry] = []
  private(set) var headers: [Header] = []
  private(set) var complaints: [Complaint] = []

  private let file: String
  private var section: String?
  private var headerIsBroken = false

  /// - Parameters:
  ///   - bytes: the file's content; a line that is not UTF-8 results in a complaint and is ignored.
  ///   - file: the file name for complaints.
  init(_ bytes: [UInt8], file: String) {
    self.file = file
    var joined: (text: String, line: Int)?
    let content = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
    for (index, raw) in content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
      guard let text = String(validating: raw, as: UTF8.self), !text.utf8.contains(0) else {
        complain(index + 1, "This line is not UTF-8 text and is ignored.")
        continue
      }
      let line = Self.trimmed(text)
      if line.hasPrefix("#") || line.hasPrefix(";") { continue }
      let start = joined?.line ?? index + 1
      let whole = (joined.map { $0.text + " " } ?? "") + line
      if Self.endsWithBackslash(line) {
        joined = (String(whole.dropLast()), start)
      } else {
        joined = nil
        take(Self.trimmed(whole), line: start)
      }
    }
    if let joined { take(Self.trimmed(joined.text), line: joined.line) }
  }

  private mutating func take(_ text: String, line: Int) {
    if text.isEmpty { return }
    if text.hasPrefix("[") {
      guard text.hasSuffix("]"), text.utf8.count > 2 else {
        section = nil
        headerIsBroken = true
        return complain(line, "A section is written [Name]; the lines under this one are ignored.")
      }
      let name = String(text.dropFirst().dropLast())
      section = name
      headers.append(Header(section: name, file: file, line: line))
      return
    }
    guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
      return complain(line, "A setting is written Key=Value; this line is ignored.")
    }
    guard let section else {
      // Entries after an invalid section header cause no complaints of their own.
      if headerIsBroken { return }
      return complain(line, "This setting precedes the first [Section] and is ignored.")
    }
    let key = Self.trimmed(String(text[..<equals]))
    let written = Self.trimmed(String(text[text.index(after: equals)...]))
    let value = Self.unquoted(written)
    // Only `"` counts as unclosed, because an apostrophe at the beginning may be part of the text.
    let isUnclosed = value == written && written.hasPrefix("\"")
    entries.append(
      Entry(section: section, key: key, value: value, isUnclosed: isUnclosed, file: file, line: line))
  }

  /// Removes a pair of quotation marks around the value, if there is one.
  private static func unquoted(_ value: String) -> String {
    for mark in ["\"", "'"] where value.hasPrefix(mark) && value.hasSuffix(mark) && value.utf8.count > 1 {
      let inner = value.dropFirst().dropLast()
      if !inner.contains(mark) { return String(inner) }
    }
    return value
  }

  private mutating func complain(_ line: Int, _ sentence: String) {
    complaints.append(Complaint(file: file, line: line, sentence: sentence))
  }

  /// Whether a line is continued: it ends with an odd number of backslashes, because an even number is escaped
  /// backslashes.
  private static func endsWithBackslash(_ line: String) -> Bool {
    line.utf8.reversed().prefix { $0 == UInt8(ascii: "\\") }.count % 2 == 1
  }

  private static func trimmed(_ text: String) -> String {
    let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
    let bytes = text.utf8.drop(while: isSpace)
    let length = bytes.count - bytes.reversed().prefix(while: isSpace).count
    return String(decoding: bytes.prefix(length), as: UTF8.self)
  }
}
