/// The bytes behind a packet that hide its length. Facts: bitchat.md section 2.
///
/// A block is the first of 256, 512, 1024 and 2048 that is at least 16 bytes longer than the packet. What is missing is
/// filled with bytes of its count; where it is more than 255, nothing is added.
public enum Padding {
  static let blocks = [256, 512, 1024, 2048]
  static let reserve = 16

  /// The block of a packet of `count` bytes; `count` where no block is long enough.
  public static func block(for count: Int) -> Int {
    blocks.first { count + reserve <= $0 } ?? count
  }

  /// Bytes of a packet of `count` bytes when it is padded.
  public static func paddedCount(of count: Int) -> Int {
    let block = block(for: count)
    return block - count > Int(UInt8.max) ? count : block
  }

  /// Adds the padding.
  public static func pad(_ bytes: inout [UInt8]) {
    let count = paddedCount(of: bytes.count) - bytes.count
    bytes += [UInt8](repeating: UInt8(truncatingIfNeeded: count), count: count)
  }

  /// Bytes before the padding: if the last byte is k, at least 1, and the last k bytes are all k, these are padding.
  public static func unpaddedCount(of bytes: [UInt8]) -> Int {
    guard let last = bytes.last, last > 0, Int(last) <= bytes.count else { return bytes.count }
    let count = bytes.count - Int(last)
    return bytes[count...].allSatisfy { $0 == last } ? count : bytes.count
  }
}
