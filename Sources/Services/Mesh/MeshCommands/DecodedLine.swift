import Bitchat
import CommandLine

/// A line of hexadecimal digits, and what it says: a packet, or why it is none.
struct DecodedLine: Equatable {
  /// The number of the line, and the fields of the packet, or `error` and `sentence`.
  let json: JSONValue
  let isPacket: Bool

  /// The most bytes of a line: two digits for each byte of the longest packet there is, and as many blanks.
  static let limit = 4 << 20

  /// - Parameter number: which line it is, from 1.
  /// - Returns: nil for a line of blanks, which is no packet and is not meant to be one.
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
