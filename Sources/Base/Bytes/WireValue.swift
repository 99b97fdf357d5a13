/// A structure of a wire format. It is read from a cursor and written behind the bytes that were written before it.
///
/// A structure whose form depends on more than its bytes (`TLV` with its length field) has the same two members with one
/// parameter more.
public protocol WireValue {
  /// Reads one structure, and leaves the bytes behind it unread.
  init(reading reader: inout ByteReader) throws(WireError)

  /// Writes the structure.
  func write(to writer: inout ByteWriter)
}

extension WireValue {
  /// Reads the structure at the beginning of `bytes`; bytes behind it are ignored.
  @inlinable
  public init(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    try self.init(reading: &reader)
  }

  /// The structure alone, as it is written.
  public var bytes: [UInt8] {
    var writer = ByteWriter()
    write(to: &writer)
    return writer.bytes
  }
}
