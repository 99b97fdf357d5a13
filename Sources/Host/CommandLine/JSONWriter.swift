/// Writes JSON (RFC 8259) as text.
///
/// Control and format characters, including bidi controls, and noncharacters are escaped, beyond the requirements of
/// JSON. The text may be shown on a terminal or sent in a D-Bus string, and strings in it may come from a peer.
public struct JSONWriter: Sendable {
  public enum Style: Sendable {
    /// One line without spaces.
    case compact
    /// One member per line, with two spaces of indentation.
    case pretty
  }

  private let style: Style
  private var text = ""

  /// The value as text, without a final newline.
  public static func write(_ value: JSONValue, _ style: Style = .compact) -> String {
    var writer = JSONWriter(style: style)
    writer.write(value, depth: 0)
    return writer.text
  }

  private init(style: Style) {
    self.style = style
  }

  private mutating func write(_ value: JSONValue, depth: Int) {
    switch value {
    case .null: text += "null"
    case .bool(let value): text += value ? "true" : "false"
    case .int(let value): text += String(value)
    case .unsigned(let value): text += String(value)
    case .double(let value): text += value.isFinite ? value.description : "null"
    case .number(let digits): text += digits
    case .string(let value): write(value)
    case .array(let elements):
      list("[", "]", elements, depth) { writer, element in writer.write(element, depth: depth + 1) }
    case .object(let members):
      list("{", "}", members, depth) { writer, member in
        writer.write(member.name)
        writer.text += writer.style == .pretty ? ": " : ":"
        writer.write(member.value, depth: depth + 1)
      }
    }
  }

  private mutating func list<Element>(
    _ open: String, _ close: String, _ elements: [Element], _ depth: Int, write: (inout JSONWriter, Element) -> Void
  ) {
    text += open
    for (index, element) in elements.enumerated() {
      if index > 0 { text += "," }
      newLine(depth + 1)
      write(&self, element)
    }
    if !elements.isEmpty { newLine(depth) }
    text += close
  }

  private mutating func newLine(_ depth: Int) {
    if style == .pretty { text += "\n" + String(repeating: "  ", count: depth) }
  }

  private mutating func write(_ string: String) {
    text += "\""
    for scalar in string.unicodeScalars {
      switch scalar {
      case "\"": text += "\\\""
      case "\\": text += "\\\\"
      case "\n": text += "\\n"
      case "\r": text += "\\r"
      case "\t": text += "\\t"
      default:
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: escape(scalar)
        case .unassigned where scalar.properties.isNoncharacterCodePoint: escape(scalar)
        default: text.unicodeScalars.append(scalar)
        }
      }
    }
    text += "\""
  }

  /// Writes `\u001b`, or a surrogate pair for a scalar beyond 16 bits.
  private mutating func escape(_ scalar: Unicode.Scalar) {
    for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
      let digits = String(unit, radix: 16)
      text += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
    }
  }
}
