/// A structure of a wire format, which is read from a cursor and appended to a writer.
///
/// A structure whose form depends on more than its bytes, such as `TLV` with its length field, has the two members with
/// one more parameter.
public protocol WireValue {
  /// Reads one structure, and leaves the bytes after it unread.
  init(reading reader: inout ByteReader) throws(WireError)

  /// Appends the encoded structure to the writer.
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

/// The reason why bytes or text from an untrusted source are refused.
public enum WireError: Error, Hashable, Sendable {
  /// A field needs more bytes than are unread.
  case truncated(needed: Int, available: Int)
  /// A field has a value that its protocol does not allow. The associated value names the field.
  case badValue(String)
  /// A field is longer than its limit, in bytes unless the field counts something else.
  case tooLong(field: String, limit: Int)
  /// Bytes follow the last field; the associated value is their number.
  case trailing(Int)
}

extension WireError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .truncated(let needed, let available): "truncated: \(needed) bytes needed, \(available) available"
    case .badValue(let field): "bad value in \(field)"
    case .tooLong(let field, let limit): "\(field) is longer than its limit of \(limit)"
    case .trailing(let count): "\(count) bytes follow the last field"
    }
  }
}
