/// A cursor that appends the fields of a wire structure in order.
public struct ByteWriter: Sendable {
  /// The bytes that were written so far.
  public private(set) var bytes: [UInt8] = []

  /// Creates a writer with memory reserved for `capacity` bytes. The writer grows when more are written.
  public init(capacity: Int = 0) {
    bytes.reserveCapacity(max(0, capacity))
  }

  /// Appends one byte.
  public mutating func u8(_ value: UInt8) { bytes.append(value) }

  /// Writes two bytes, most significant first.
  public mutating func u16be(_ value: UInt16) { store(value.bigEndian) }

  /// Writes two bytes, least significant first.
  public mutating func u16le(_ value: UInt16) { store(value.littleEndian) }

  /// Writes four bytes, most significant first.
  public mutating func u32be(_ value: UInt32) { store(value.bigEndian) }

  /// Writes four bytes, least significant first.
  public mutating func u32le(_ value: UInt32) { store(value.littleEndian) }

  /// Writes eight bytes, most significant first.
  public mutating func u64be(_ value: UInt64) { store(value.bigEndian) }

  /// Writes eight bytes, least significant first.
  public mutating func u64le(_ value: UInt64) { store(value.littleEndian) }

  /// Writes the bytes as they are, without their count.
  public mutating func append(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

  /// Writes the output of `body`, preceded by its length in bytes as a big-endian `Length`.
  ///
  /// Throws `tooLong` with the name of the field if the length does not fit, or the error of `body`. In both cases
  /// nothing is written.
  public mutating func lengthPrefixed<Length: FixedWidthInteger & UnsignedInteger>(
    _ length: Length.Type, field: String, _ body: (inout ByteWriter) throws(WireError) -> Void
  ) throws(WireError) {
    let start = bytes.count
    store(Length.zero)
    let inner = bytes.count
    do throws(WireError) {
      try body(&self)
      guard let count = Length(exactly: bytes.count - inner) else {
        throw .tooLong(field: field, limit: Int(clamping: Length.max))
      }
      withUnsafeBytes(of: count.bigEndian) { bytes.replaceSubrange(start..<inner, with: $0) }
    } catch {
      bytes.removeSubrange(start...)
      throw error
    }
  }

  private mutating func store(_ value: some FixedWidthInteger) {
    withUnsafeBytes(of: value) { bytes.append(contentsOf: $0) }
  }
}
