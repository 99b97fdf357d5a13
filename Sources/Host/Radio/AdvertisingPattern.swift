/// A filter for packets: bytes at an offset within an AD structure of a type, as in the kernel's advertisement monitor
/// (Add Advertisement Patterns Monitor).
public struct AdvertisingPattern: Hashable, Sendable {
  /// The AD type of the structures that can match.
  public let type: UInt8
  /// The offset of the bytes, from the first byte after the type.
  public let offset: UInt8
  /// The bytes to match: 1 to 31; offset and length together are at most 31.
  public let bytes: [UInt8]

  /// Maximum patterns of a radio at one time, for all services together (the kernel's limit).
  public static let limit = 16

  /// Makes a pattern.
  ///
  /// - Precondition: `isValid`.
  public init(type: UInt8, offset: UInt8 = 0, bytes: [UInt8]) {
    precondition(Self.isValid(offset: offset, count: bytes.count), "a pattern has 1 to 31 bytes")
    self.type = type
    self.offset = offset
    self.bytes = bytes
  }

  /// Whether a legacy advertisement can contain `count` bytes at the offset.
  public static func isValid(offset: UInt8, count: Int) -> Bool {
    count >= 1 && Int(offset) + count <= AdvertisingData.limit
  }

  /// Whether an AD structure in `data` contains the bytes. A truncated structure, and everything after it, does not
  /// match. Nothing is allocated.
  public func matches(_ data: ArraySlice<UInt8>) -> Bool {
    var start = data.startIndex
    while start < data.endIndex {
      let end = start + 1 + Int(data[start])
      guard end > start + 1, end <= data.endIndex else { return false }
      let found = start + 2 + Int(offset)
      if data[start + 1] == type, found + bytes.count <= end,
        data[found..<(found + bytes.count)].elementsEqual(bytes)
      {
        return true
      }
      start = end
    }
    return false
  }
}
