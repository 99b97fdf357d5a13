/// The value of Response size: the length of the encrypted frame in bytes, as a signed 32-bit big-endian number or
/// (dialect 0.3) in ASCII decimal digits.
public enum ResponseSize {
  public static func encode(_ size: Int, as encoding: Dialect.SizeEncoding) -> [UInt8] {
    switch encoding {
    case .bigEndian:
      let size = UInt32(clamping: size)
      return [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: size >> $0) }
    case .asciiDecimal:
      return Array(String(size).utf8)
    }
  }

  /// - Parameter limit: largest frame that is taken.
  /// - Throws: TVV_UNK_002 for a value that is no size, TVV_TRA_001 for a size that cannot be a frame's.
  public static func decode(
    _ value: [UInt8], as encoding: Dialect.SizeEncoding, limit: Int
  ) throws(TuvaliError) -> Int {
    let size: Int
    switch encoding {
    case .bigEndian:
      // Android reads the first four bytes, signed.
      guard value.count >= 4 else {
        throw TuvaliError(.verifierState, .protocolViolation, "The announced size has fewer than 4 bytes.")
      }
      size = Int(Int32(truncatingIfNeeded: value.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }))
    case .asciiDecimal:
      guard (1...10).contains(value.count), value.allSatisfy({ (0x30...0x39).contains($0) }) else {
        throw TuvaliError(.verifierState, .protocolViolation, "The announced size is not a decimal number.")
      }
      size = value.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }
    guard size >= Limits.smallestFrame else {
      throw TuvaliError(.verifierSize, .protocolViolation, "The wallet announced \(size) bytes, which is no frame.")
    }
    guard size <= limit else {
      throw TuvaliError(
        .verifierSize, .limitExceeded, "The wallet announced \(size) bytes, and the limit is \(limit).")
    }
    return size
  }
}
