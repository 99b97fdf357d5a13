import Bitchat
import CommandLine

/// Description of a packet given in hexadecimal digits, or the error.
struct DecodedLine: Equatable {
  /// Line number, and the fields of the packet, or `error` and `sentence`.
  let json: JSONValue
  let isPacket: Bool

  /// Maximum length of a line, in bytes: two digits for each byte of the longest packet, and about as many spaces.
  static let limit = 4 << 20

  /// - Parameter number: line number, from 1.
  /// - Returns: nil for an empty line.
  init?(_ line: LineCutter.Line, number: Int) {
    let fields: [JSONValue.Member]
    switch line {
    case .tooLong:
      fields = [.init("error", "TooLong"), .init("sentence", "the line is longer than any packet")]
    case .text(let text):
      guard text.contains(where: { !$0.isWhitespace }) else { return nil }
      fields = PacketDescription(hex: text).fields.map { .init($0.name, JSONValue($0.value)) }
    }
    json = .object([.init("line", .int(Int64(number)))] + fields)
    isPacket = fields.first?.name != "error"
  }
}
