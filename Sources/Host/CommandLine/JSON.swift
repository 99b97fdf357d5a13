/// A JSON value; an object preserves the order of its members.
public enum JSONValue: Sendable, Equatable {
  /// A name in an object, and its value.
  public struct Member: Sendable, Equatable {
    public let name: String
    public let value: JSONValue

    public init(_ name: String, _ value: JSONValue) {
      self.name = name
      self.value = value
    }
  }

  case null
  case bool(Bool)
  case int(Int64)
  /// An integer that may be outside the range of ``int(_:)``.
  case unsigned(UInt64)
  /// A floating-point number. Infinity and NaN, which JSON cannot represent, are written as `null`.
  case double(Double)
  /// A number from a JSON text, with its original digits.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([Member])

  /// Returns the string as a JSON string, and nil as `null`.
  public static func optional(_ string: String?) -> JSONValue {
    string.map { .string($0) } ?? .null
  }

  /// Value of the member with this name; nil if the object has no such member, or this value is not an object.
  public subscript(name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.first { $0.name == name }?.value
  }

  /// The text of a string; nil for any other value.
  public var asString: String? {
    if case .string(let text) = self { text } else { nil }
  }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByBooleanLiteral, ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  public init(stringLiteral value: String) { self = .string(value) }
  public init(integerLiteral value: Int64) { self = .int(value) }
  public init(floatLiteral value: Double) { self = .double(value) }
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(nilLiteral: ()) { self = .null }
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(elements.map { Member($0.0, $0.1) })
  }
}

/// Reads JSON (RFC 8259) from untrusted bytes: one value, surrounded only by white space.
///
/// It is stricter than the standard: an object with two members of the same name is refused, and so is an unpaired
/// surrogate. Numbers are stored as their digits.
public struct JSONReader {
  public enum Problem: Error, Hashable, Sendable {
    /// The bytes are not UTF-8.
    case notUTF8
    /// The bytes from this offset on are not JSON.
    case malformed(at: Int)
    /// Arrays and objects are nested more than `depthLimit` deep.
    case tooDeep
    /// An object has two members of one name.
    case duplicate
  }

  /// Maximum depth of arrays and objects.
  public static let depthLimit = 128

  private let bytes: [UInt8]
  private var offset = 0

  public static func read(_ bytes: [UInt8]) throws(Problem) -> JSONValue {
    guard String(validating: bytes, as: UTF8.self) != nil else { throw .notUTF8 }
    var reader = JSONReader(bytes: bytes)
    let value = try reader.value(depth: 0)
    reader.skipSpace()
    guard reader.offset == bytes.count else { throw .malformed(at: reader.offset) }
    return value
  }

  private init(bytes: [UInt8]) { self.bytes = bytes }

  private var next: UInt8? { offset < bytes.count ? bytes[offset] : nil }

  private mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { offset += 1 }
  }

  private mutating func take(_ byte: UInt8) -> Bool {
    guard next == byte else { return false }
    offset += 1
    return true
  }

  private mutating func value(depth: Int) throws(Problem) -> JSONValue {
    guard depth <= Self.depthLimit else { throw .tooDeep }
    skipSpace()
    switch next {
    case UInt8(ascii: "{"): return try object(depth)
    case UInt8(ascii: "["): return try array(depth)
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    default: return .number(try number())
    }
  }

  private mutating func word(_ word: StaticString, _ value: JSONValue) throws(Problem) -> JSONValue {
    let expected = word.withUTF8Buffer(Array.init)
    guard bytes[offset...].starts(with: expected) else { throw .malformed(at: offset) }
    offset += expected.count
    return value
  }

  private mutating func array(_ depth: Int) throws(Problem) -> JSONValue {
    offset += 1
    var elements: [JSONValue] = []
    skipSpace()
    if take(UInt8(ascii: "]")) { return .array([]) }
    while true {
      elements.append(try value(depth: depth + 1))
      skipSpace()
      if take(UInt8(ascii: "]")) { return .array(elements) }
      guard take(UInt8(ascii: ",")) else { throw .malformed(at: offset) }
    }
  }

  private mutating func object(_ depth: Int) throws(Problem) -> JSONValue {
    offset += 1
    var members: [JSONValue.Member] = []
    var names: Set<String> = []
    skipSpace()
    if take(UInt8(ascii: "}")) { return .object([]) }
    while true {
      skipSpace()
      guard next == UInt8(ascii: "\"") else { throw .malformed(at: offset) }
      let name = try string()
      guard names.insert(name).inserted else { throw .duplicate }
      skipSpace()
      guard take(UInt8(ascii: ":")) else { throw .malformed(at: offset) }
      members.append(.init(name, try value(depth: depth + 1)))
      skipSpace()
      if take(UInt8(ascii: "}")) { return .object(members) }
      guard take(UInt8(ascii: ",")) else { throw .malformed(at: offset) }
    }
  }

  // MARK: Strings and numbers

  private mutating func string() throws(Problem) -> String {
    offset += 1
    var text: [UInt8] = []
    while let byte = next {
      offset += 1
      switch byte {
      case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
      case UInt8(ascii: "\\"): try escape(into: &text)
      case 0..<0x20: throw .malformed(at: offset - 1)
      default: text.append(byte)
      }
    }
    throw .malformed(at: offset)
  }

  private mutating func escape(into text: inout [UInt8]) throws(Problem) {
    guard let byte = next else { throw .malformed(at: offset) }
    offset += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
    case UInt8(ascii: "b"): text.append(0x08)
    case UInt8(ascii: "f"): text.append(0x0C)
    case UInt8(ascii: "n"): text.append(0x0A)
    case UInt8(ascii: "r"): text.append(0x0D)
    case UInt8(ascii: "t"): text.append(0x09)
    case UInt8(ascii: "u"):
      var code = UInt32(try unit())
      if (0xD800..<0xDC00).contains(code) {
        guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw .malformed(at: offset) }
        let low = UInt32(try unit())
        guard (0xDC00..<0xE000).contains(low) else { throw .malformed(at: offset) }
        code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
      }
      guard let scalar = Unicode.Scalar(code) else { throw .malformed(at: offset) }
      text.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
    default: throw .malformed(at: offset - 1)
    }
  }

  /// Parses four hexadecimal digits of an escape.
  private mutating func unit() throws(Problem) -> UInt16 {
    var unit: UInt16 = 0
    for _ in 0..<4 {
      guard let byte = next, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
        throw .malformed(at: offset)
      }
      unit = unit << 4 | UInt16(digit)
      offset += 1
    }
    return unit
  }

  private mutating func digits() throws(Problem) {
    let start = offset
    while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { offset += 1 }
    guard offset > start else { throw .malformed(at: offset) }
  }

  private mutating func number() throws(Problem) -> String {
    let start = offset
    _ = take(UInt8(ascii: "-"))
    if !take(UInt8(ascii: "0")) { try digits() }
    if take(UInt8(ascii: ".")) { try digits() }
    if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
      if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
      try digits()
    }
    return String(decoding: bytes[start..<offset], as: UTF8.self)
  }
}

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

  /// Writes the scalar as an escape: `\u001b`, or a surrogate pair for a scalar beyond 16 bits.
  private mutating func escape(_ scalar: Unicode.Scalar) {
    for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
      let digits = String(unit, radix: 16)
      text += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
    }
  }
}
