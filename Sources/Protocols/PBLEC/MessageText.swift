import Bytes

/// The text of a message: UTF-8 of 27 bytes at most without control characters, held in place, so that texts are compared without
/// taking memory.
public struct MessageText: Hashable, Sendable {
  /// The bytes, zeros behind them, and their number in the last place.
  private var storage = SIMD32<UInt8>()

  /// The text that somebody wants to send, at most 24 bytes.
  ///
  /// - Throws: `BroadcastError.empty`, `tooLong` or `controlCharacters`. Text that does not fit is refused and never cut. Facts:
  ///   pblec.md section 2.
  public init(_ text: String) throws(BroadcastError) {
    let count = text.utf8.count
    guard count > 0 else { throw .empty }
    guard count <= Limits.textBytes else { throw .tooLong(bytes: count) }
    let bytes = Array(text.utf8)
    guard !Self.hasControls(bytes[...]) else { throw .controlCharacters(bytes: count) }
    self.init(unchecked: bytes[...])
  }

  /// Text that was checked: at most 27 bytes.
  init(unchecked bytes: ArraySlice<UInt8>) {
    for (index, byte) in bytes.prefix(Limits.heardTextBytes).enumerated() { storage[index] = byte }
    storage[31] = UInt8(truncatingIfNeeded: min(bytes.count, Limits.heardTextBytes))
  }

  /// How many bytes of UTF-8 the text has.
  public var count: Int { Int(storage[31]) }

  public var bytes: [UInt8] { (0..<count).map { storage[$0] } }

  /// The text as it was sent, not fit to be shown: it may turn the direction of reading.
  public var string: String { String(decoding: bytes, as: UTF8.self) }

  /// As much of the text as fits into a message, cut between two code points; the original cuts so. Facts: pblec.md section 2.
  public static func clipped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      guard result.utf8.count + String(scalar).utf8.count <= Limits.textBytes else { break }
      result.unicodeScalars.append(scalar)
    }
    return result
  }

  /// Whether UTF-8 has a control character: U+0000 to U+001F, U+007F to U+009F.
  static func hasControls(_ bytes: ArraySlice<UInt8>) -> Bool {
    var previous: UInt8 = 0
    for byte in bytes {
      if byte < 0x20 || byte == 0x7F || previous == 0xC2 && byte < 0xA0 { return true }
      previous = byte
    }
    return false
  }
}

extension MessageText: CustomStringConvertible {
  /// What people say is not for logs.
  public var description: String { "text of \(count) bytes" }
}
