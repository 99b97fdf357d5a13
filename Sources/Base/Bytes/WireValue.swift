/// A structure of a wire format, which is read from a cursor and appended to a writer.
///
/// A structure whose form depends on more than its bytes, such as `TLV` with its length field, has the two members with
/// one more parameter.
public protocol WireValue {
  /// Reads one structure, and leaves the bytes after it unread.
  init(reading reader: inout ByteReader) throws(WireError)

  /// Writes the structure.
  func write(to writer: inout ByteWriter)
}

extension WireValue {
  /// Reads the structure at the beginning of `bytes`; bytes after it are ignored.
  @inlinable
  public init(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    try self.init(reading: &reader)
  }

  /// The bytes of this structure alone.
  public var bytes: [UInt8] {
    var writer = ByteWriter()
    write(to: &writer)
    return writer.bytes
  }
}
