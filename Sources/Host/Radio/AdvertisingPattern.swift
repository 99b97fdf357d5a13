/// What a packet must hold to be listened to: bytes at an offset within an AD structure of a type, as the kernel's
/// advertisement monitor takes it (Add Advertisement Patterns Monitor).
public struct AdvertisingPattern: Hashable, Sendable {
  /// The AD type.
  public let type: UInt8
  /// Of the bytes, from the first one behind the type.
  public let offset: UInt8
  /// 1 to 31 bytes; with the offset 31 at most.
  public let bytes: [UInt8]

  /// How many patterns a radio listens for at one time, all services together (the kernel's limit).
  public static let limit = 16

  /// - Precondition: `isValid`.
  public init(type: UInt8, offset: UInt8 = 0, bytes: [UInt8]) {
    precondition(Self.isValid(offset: offset, count: bytes.count), "a pattern has 1 to 31 bytes")
    self.type = type
    self.offset = offset
    self.bytes = bytes
  }

  /// Whether a legacy advertisement can hold so many bytes at the offset.
  public static func isValid(offset: UInt8, count: Int) -> Bool {
    count >= 1 && Int(offset) + count <= AdvertisingData.limit
  }

  /// Whether one of the AD structures in `data` holds the bytes. A structure that is cut off holds nothing, nor does what is
  /// behind it. Nothing is allocated.
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
