import Bytes

/// Records with a type and a length of one byte each, which many payloads here consist of.
enum ShortTLV {
  /// More records than any payload here has use for.
  static let maximumCount = 64

  static func all(in bytes: ArraySlice<UInt8>) throws(WireError) -> [TLV] {
    try TLV.all(in: bytes, length: .u8, limit: Limits.shortValueBytes, maximumCount: maximumCount)
  }

  /// The records as they are written. Values longer than 255 bytes do not get here: the values that have them check them
  /// when they are made.
  static func write(_ records: [(UInt8, [UInt8])], to writer: inout ByteWriter) {
    for (type, value) in records {
      writer.u8(type)
      writer.u8(UInt8(clamping: value.count))
      writer.append(value.prefix(Limits.shortValueBytes))
    }
  }
}
