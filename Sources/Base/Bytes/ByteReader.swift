/// A cursor over bytes from an untrusted source. Every read checks the number of unread bytes; a failed read leaves the
/// cursor in place.
public struct ByteReader: Sendable {
  @usableFromInline var unread: ArraySlice<UInt8>

  @inlinable
  public init(_ bytes: [UInt8]) {
    unread = bytes[...]
  }

  @inlinable
  public init(_ slice: ArraySlice<UInt8>) {
    unread = slice
  }

  /// Number of bytes that were not read yet.
  public var remaining: Int { unread.count }

  @inlinable public var isAtEnd: Bool { unread.isEmpty }

  /// Reads the next byte.
  public mutating func u8() throws(WireError) -> UInt8 {
    guard let byte = unread.popFirst() else { throw .truncated(needed: 1, available: 0) }
    return byte
  }

  /// Reads two bytes, most significant first.
  @inlinable
  public mutating func u16be() throws(WireError) -> UInt16 { UInt16(bigEndian: try load()) }

  /// Reads two bytes, least significant first.
  public mutating func u16le() throws(WireError) -> UInt16 { UInt16(littleEndian: try load()) }

  /// Reads four bytes, most significant first.
  public mutating func u32be() throws(WireError) -> UInt32 { UInt32(bigEndian: try load()) }

  /// Reads four bytes, least significant first.
  public mutating func u32le() throws(WireError) -> UInt32 { UInt32(littleEndian: try load()) }

  /// Reads eight bytes, most significant first.
  public mutating func u64be() throws(WireError) -> UInt64 { UInt64(bigEndian: try load()) }

  /// Reads eight bytes, least significant first.
  public mutating func u64le() throws(WireError) -> UInt64 { UInt64(littleEndian: try load()) }

  /// Reads `count` bytes as a slice of the input, without copying them.
  ///
  /// Throws `truncated` if there are fewer, and `badValue` if `count`, which may come from a hostile field, is
  /// negative.
  public mutating func bytes(_ count: Int) throws(WireError) -> ArraySlice<UInt8> {
    guard count >= 0 else { throw .badValue("count") }
    guard count <= unread.count else { throw .truncated(needed: count, available: unread.count) }
    defer { unread.removeFirst(count) }
    return unread.prefix(count)
  }

  /// Reads all unread bytes; the result may be empty.
  @inlinable
  public mutating func rest() -> ArraySlice<UInt8> {
    defer { unread.removeAll() }
    return unread
  }

  /// Checks that the last field was read: throws `trailing` if bytes are unread.
  public func finish() throws(WireError) {
    guard unread.isEmpty else { throw .trailing(unread.count) }
  }

  @inlinable
  mutating func load<Value: FixedWidthInteger & BitwiseCopyable>() throws(WireError) -> Value {
    let size = MemoryLayout<Value>.size
    guard size <= unread.count else { throw .truncated(needed: size, available: unread.count) }
    defer { unread.removeFirst(size) }
    return unread.withUnsafeBytes { $0.loadUnaligned(as: Value.self) }
  }
}
