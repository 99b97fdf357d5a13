/// Reads JSON (RFC 8259) from untrusted bytes: one value, surrounded only by white space.
///
/// It is stricter than the standard: an object with two members of the same name is refused, and so is an unpaired
/// surrogate. Numbers keep their digits.
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

  /// Four hexadecimal digits.
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
