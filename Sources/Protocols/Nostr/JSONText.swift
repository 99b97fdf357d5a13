/// Writes JSON without white space, with the escapes of NIP-01: seven characters have a short escape, and everything
/// else stays as it is.
struct JSONText {
  /// The form of control characters without a short escape.
  enum Controls {
    /// Control characters are written unescaped, as NIP-01 requires for hashing. The result is then not valid JSON.
    case verbatim
    /// Control characters are written as `\u00xx`.
    case escaped
  }

  private(set) var bytes: [UInt8] = []
  private let controls: Controls

  init(controls: Controls) { self.controls = controls }

  /// Writes `text` unchanged, for example punctuation.
  mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }

  mutating func string(_ text: String) {
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): escape(byte)
      case 0x08: escape(UInt8(ascii: "b"))
      case 0x09: escape(UInt8(ascii: "t"))
      case 0x0A: escape(UInt8(ascii: "n"))
      case 0x0C: escape(UInt8(ascii: "f"))
      case 0x0D: escape(UInt8(ascii: "r"))
      case 0..<0x20 where controls == .escaped:
        raw("\\u00")
        bytes.append(Self.digit(byte >> 4))
        bytes.append(Self.digit(byte & 0xF))
      default: bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  /// Writes an array of texts.
  mutating func list(_ texts: [String]) {
    array(texts) { $0.string($1) }
  }

  /// Writes an array of arrays of texts.
  mutating func lists(_ lists: [[String]]) {
    array(lists) { $0.list($1) }
  }

  /// Writes an event.
  ///
  /// - Parameters:
  ///   - id: hexadecimal digits.
  ///   - signature: hexadecimal digits; nil for a rumor, which has none.
  mutating func event(_ draft: EventDraft, id: String, signature: String?) {
    raw("{\"id\":")
    string(id)
    raw(",\"pubkey\":")
    string(draft.author.hex)
    raw(",\"created_at\":\(draft.createdAt.seconds),\"kind\":\(draft.kind.rawValue),\"tags\":")
    lists(draft.tags)
    raw(",\"content\":")
    string(draft.content)
    if let signature {
      raw(",\"sig\":")
      string(signature)
    }
    raw("}")
  }

  mutating func array<Element>(_ elements: [Element], _ write: (inout JSONText, Element) -> Void) {
    raw("[")
    for (index, element) in elements.enumerated() {
      if index > 0 { raw(",") }
      write(&self, element)
    }
    raw("]")
  }

  private mutating func escape(_ letter: UInt8) {
    bytes.append(UInt8(ascii: "\\"))
    bytes.append(letter)
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
  }
}
