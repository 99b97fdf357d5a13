import Bytes

/// A cursor over JSON (RFC 8259) from an untrusted source. It reads one value after the other and builds no tree, so a
/// message costs no more memory than the texts that are taken from it.
///
/// It is stricter than the standard: an unpaired surrogate and U+0000 are refused, and so is a number with a fraction
/// or an exponent where an integer is expected.
struct JSONCursor {
  /// Why bytes are refused as JSON.
  enum Problem: Error, Hashable, Sendable {
    /// The bytes are not UTF-8, or not JSON.
    case malformed
    /// The next value is JSON, but is of another type than expected or exceeds a limit.
    case unexpected
  }

  private let bytes: [UInt8]
  /// The position of the next byte.
  private(set) var offset: Int

  /// - Throws: `malformed` for bytes that are not UTF-8.
  init(_ bytes: [UInt8]) throws(Problem) {
    guard UTF8Text.isValid(bytes) else { throw .malformed }
    self.bytes = bytes
    offset = 0
  }

  /// Skips white space, and returns the next byte without consuming it; nil at the end.
  mutating func peek() -> UInt8? {
    while offset < bytes.count {
      switch bytes[offset] {
      case 0x20, 0x09, 0x0A, 0x0D: offset += 1
      case let byte: return byte
      }
    }
    return nil
  }

  /// Skips white space, and consumes the punctuation `byte` if it is next. Returns whether it was.
  mutating func take(_ byte: UInt8) -> Bool {
    guard peek() == byte else { return false }
    offset += 1
    return true
  }

  /// Reads a byte of punctuation; throws `malformed` if another byte is next.
  mutating func expect(_ byte: UInt8) throws(Problem) {
    guard take(byte) else { throw .malformed }
  }

  /// Checks that nothing but white space follows.
  mutating func finish() throws(Problem) {
    guard peek() == nil else { throw .malformed }
  }

  /// Reads a string of at most `limit` bytes. Throws `unexpected` for another value or a longer string.
  mutating func string(limit: Int) throws(Problem) -> String {
    guard peek() == UInt8(ascii: "\"") else { throw .unexpected }
    var text: [UInt8] = []
    try scan { (bytes: ArraySlice<UInt8>) throws(Problem) in
      guard bytes.count <= limit - text.count else { throw .unexpected }
      text.append(contentsOf: bytes)
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// Reads an integer. Throws `unexpected` for another value, a fraction, an exponent, or a number out of range.
  mutating func integer() throws(Problem) -> Int64 {
    guard let first = peek(), first == UInt8(ascii: "-") || Self.isDigit(first) else { throw .unexpected }
    let start = offset
    try number()
    guard let value = Int64(String(decoding: bytes[start..<offset], as: UTF8.self)) else { throw .unexpected }
    return value
  }

  /// Reads `true` or `false`. Throws `unexpected` for another value.
  mutating func bool() throws(Problem) -> Bool {
    switch peek() {
    case UInt8(ascii: "t"):
      try word("true")
      return true
    case UInt8(ascii: "f"):
      try word("false")
      return false
    default: throw .unexpected
    }
  }

  /// Reads an array of at most `limit` elements. Throws `unexpected` for another value or more elements.
  mutating func array<Element>(
    limit: Int, _ element: (inout JSONCursor) throws(Problem) -> Element
  ) throws(Problem) -> [Element] {
    guard take(UInt8(ascii: "[")) else { throw .unexpected }
    var elements: [Element] = []
    if take(UInt8(ascii: "]")) { return elements }
    while true {
      guard elements.count < limit else { throw .unexpected }
      elements.append(try element(&self))
      if take(UInt8(ascii: "]")) { return elements }
      try expect(UInt8(ascii: ","))
    }
  }

  /// Reads an object, and passes each name to `member`, which must read the value. A name of more than `nameLimit`
  /// bytes is passed as an empty text.
  mutating func object(
    nameLimit: Int, _ member: (inout JSONCursor, String) throws(Problem) -> Void
  ) throws(Problem) {
    guard take(UInt8(ascii: "{")) else { throw .unexpected }
    if take(UInt8(ascii: "}")) { return }
    while true {
      guard peek() == UInt8(ascii: "\"") else { throw .malformed }
      var name: [UInt8] = []
      var isShort = true
      try scan { (bytes: ArraySlice<UInt8>) throws(Problem) in
        isShort = isShort && bytes.count <= nameLimit - name.count
        if isShort { name.append(contentsOf: bytes) }
      }
      try expect(UInt8(ascii: ":"))
      try member(&self, isShort ? String(decoding: name, as: UTF8.self) : "")
      if take(UInt8(ascii: "}")) { return }
      try expect(UInt8(ascii: ","))
    }
  }

  /// Skips a value of any type. Throws `malformed` if it is not JSON, or deeper than `NostrLimits.depth`.
  mutating func skip(depth: Int = 0) throws(Problem) {
    guard depth <= NostrLimits.depth else { throw .malformed }
    switch peek() {
    case UInt8(ascii: "{"):
      try object(nameLimit: 0) { (cursor: inout JSONCursor, _: String) throws(Problem) in
        try cursor.skip(depth: depth + 1)
      }
    case UInt8(ascii: "["):
      offset += 1
      if take(UInt8(ascii: "]")) { return }
      while true {
        try skip(depth: depth + 1)
        if take(UInt8(ascii: "]")) { return }
        try expect(UInt8(ascii: ","))
      }
    case UInt8(ascii: "\""): try scan { (_: ArraySlice<UInt8>) throws(Problem) in }
    case UInt8(ascii: "t"): try word("true")
    case UInt8(ascii: "f"): try word("false")
    case UInt8(ascii: "n"): try word("null")
    default: try number()
    }
  }

  // MARK: Tokens

  /// Reads a string, and passes its decoded bytes in portions.
  private mutating func scan(_ portion: (ArraySlice<UInt8>) throws(Problem) -> Void) throws(Problem) {
    try expect(UInt8(ascii: "\""))
    var start = offset
    while offset < bytes.count {
      switch bytes[offset] {
      case UInt8(ascii: "\""):
        if start < offset { try portion(bytes[start..<offset]) }
        offset += 1
        return
      case UInt8(ascii: "\\"):
        if start < offset { try portion(bytes[start..<offset]) }
        offset += 1
        try portion(try escape()[...])
        start = offset
      case 0..<0x20: throw .malformed
      default: offset += 1
      }
    }
    throw .malformed
  }

  /// Reads an escape sequence after its backslash, and returns the character in UTF-8.
  private mutating func escape() throws(Problem) -> [UInt8] {
    guard offset < bytes.count else { throw .malformed }
    let letter = bytes[offset]
    offset += 1
    switch letter {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [letter]
    case UInt8(ascii: "b"): return [0x08]
    case UInt8(ascii: "f"): return [0x0C]
    case UInt8(ascii: "n"): return [0x0A]
    case UInt8(ascii: "r"): return [0x0D]
    case UInt8(ascii: "t"): return [0x09]
    case UInt8(ascii: "u"):
      var code = UInt32(try unit())
      if (0xD800..<0xDC00).contains(code) {
        guard offset + 1 < bytes.count, bytes[offset] == UInt8(ascii: "\\"), bytes[offset + 1] == UInt8(ascii: "u")
        else { throw .malformed }
        offset += 2
        let low = UInt32(try unit())
        guard (0xDC00..<0xE000).contains(low) else { throw .malformed }
        code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
      }
      guard code != 0, let scalar = Unicode.Scalar(code) else { throw .malformed }
      return Array(String(Character(scalar)).utf8)
    default: throw .malformed
    }
  }

  /// Reads the four hexadecimal digits of a `\u` escape: one UTF-16 code unit.
  private mutating func unit() throws(Problem) -> UInt16 {
    guard offset + 4 <= bytes.count,
      let unit = try? Hex.decode(String(decoding: bytes[offset..<offset + 4], as: UTF8.self))
    else { throw .malformed }
    offset += 4
    return UInt16(unit[0]) << 8 | UInt16(unit[1])
  }

  private mutating func word(_ word: StaticString) throws(Problem) {
    let expected = word.withUTF8Buffer(Array.init)
    guard bytes[offset...].starts(with: expected) else { throw .malformed }
    offset += expected.count
  }

  private mutating func number() throws(Problem) {
    _ = takeByte(UInt8(ascii: "-"))
    if !takeByte(UInt8(ascii: "0")) { try digits() }
    if takeByte(UInt8(ascii: ".")) { try digits() }
    if takeByte(UInt8(ascii: "e")) || takeByte(UInt8(ascii: "E")) {
      if !takeByte(UInt8(ascii: "+")) { _ = takeByte(UInt8(ascii: "-")) }
      try digits()
    }
  }

  private mutating func digits() throws(Problem) {
    let start = offset
    while offset < bytes.count, Self.isDigit(bytes[offset]) { offset += 1 }
    guard offset > start else { throw .malformed }
  }

  /// Reads a byte without skipping white space before it.
  private mutating func takeByte(_ byte: UInt8) -> Bool {
    guard offset < bytes.count, bytes[offset] == byte else { return false }
    offset += 1
    return true
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}

/// Decodes Nostr events from JSON.
enum EventReader {
  /// The members of a JSON event that were read so far; nil for a member that did not occur.
  struct Members {
    var id: String?
    var author: String?
    var createdAt: Int64?
    var kind: Int64?
    var tags: [[String]]?
    var content: String?
    var signature: String?

    /// The event without ID and signature.
    func draft() throws(EventRefusal) -> EventDraft {
      guard let author = author.flatMap({ NostrKey(hex: $0) }), let createdAt, createdAt >= 0,
        let kind = kind.flatMap({ UInt16(exactly: $0) }), let tags, let content
      else { throw .malformedEvent }
      return EventDraft(
        author: author, createdAt: UnixTime(seconds: createdAt), kind: EventKind(rawValue: kind), tags: tags,
        content: content)
    }
  }

  /// Reads a signed event, and nothing else.
  static func event(_ bytes: [UInt8]) throws(EventRefusal) -> ReceivedEvent {
    let members = try members(bytes)
    let draft = try members.draft()
    guard let id = members.id.flatMap({ EventID(hex: $0) }),
      let signature = members.signature.flatMap({ LowerHex.decode($0, count: NostrKey.signatureSize) })
    else { throw .malformedEvent }
    return ReceivedEvent(draft: draft, claimedID: id, signature: signature)
  }

  /// Reads the members of an event, and nothing else.
  static func members(_ bytes: [UInt8]) throws(EventRefusal) -> Members {
    guard bytes.count <= NostrLimits.eventBytes else { throw .eventTooLong }
    do throws(JSONCursor.Problem) {
      var cursor = try JSONCursor(bytes)
      let members = try members(&cursor)
      try cursor.finish()
      return members
    } catch {
      throw .malformedEvent
    }
  }

  /// Reads the object of an event. Members with other names are skipped; one that occurs twice is refused.
  private static func members(_ cursor: inout JSONCursor) throws(JSONCursor.Problem) -> Members {
    var members = Members()
    try cursor.object(nameLimit: 16) { (cursor: inout JSONCursor, name: String) throws(JSONCursor.Problem) in
      switch name {
      case "id": try set(&members.id, try cursor.string(limit: 64))
      case "pubkey": try set(&members.author, try cursor.string(limit: 64))
      case "created_at": try set(&members.createdAt, try cursor.integer())
      case "kind": try set(&members.kind, try cursor.integer())
      case "tags":
        try set(
          &members.tags,
          try cursor.array(limit: NostrLimits.tags) { (cursor: inout JSONCursor) throws(JSONCursor.Problem) in
            try cursor.array(limit: NostrLimits.tagTexts) { (cursor: inout JSONCursor) throws(JSONCursor.Problem) in
              try cursor.string(limit: NostrLimits.tagTextBytes)
            }
          })
      case "content": try set(&members.content, try cursor.string(limit: NostrLimits.eventBytes))
      case "sig":
        // A rumor may have null here: it is not signed.
        if cursor.peek() == UInt8(ascii: "n") {
          try cursor.skip()
        } else {
          try set(&members.signature, try cursor.string(limit: 128))
        }
      default: try cursor.skip()
      }
    }
    return members
  }

  private static func set<Value>(_ member: inout Value?, _ value: Value) throws(JSONCursor.Problem) {
    guard member == nil else { throw .unexpected }
    member = value
  }
}
