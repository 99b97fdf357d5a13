import Bytes

/// Records with a type and a length of one byte each, used by many payloads.
enum ShortTLV {
  /// Maximum records in one payload. No payload needs more.
  static let maximumCount = 64

  static func all(in bytes: ArraySlice<UInt8>) throws(WireError) -> [TLV] {
    try TLV.all(in: bytes, length: .u8, limit: Limits.shortValueBytes, maximumCount: maximumCount)
  }

  /// Writes the records. Callers have checked that values have at most 255 bytes.
  static func write(_ records: [(UInt8, [UInt8])], to writer: inout ByteWriter) {
    for (type, value) in records {
      writer.u8(type)
      writer.u8(UInt8(clamping: value.count))
      writer.append(value.prefix(Limits.shortValueBytes))
    }
  }
}
