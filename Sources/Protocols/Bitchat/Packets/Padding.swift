/// Padding after a packet, which hides its length. Facts: bitchat.md section 2.
///
/// The padded length is the first of 256, 512, 1024 and 2048 that is at least 16 bytes longer than the packet. Each
/// padding byte has the number of padding bytes as value. If that exceeds 255, no padding is added.
public enum Padding {
  static let blocks = [256, 512, 1024, 2048]
  static let reserve = 16

  /// Block size for a packet of `count` bytes; `count` if no block is large enough.
  public static func block(for count: Int) -> Int {
    blocks.first { count + reserve <= $0 } ?? count
  }

  /// Length of a packet of `count` bytes after padding.
  public static func paddedCount(of count: Int) -> Int {
    let block = block(for: count)
    return block - count > Int(UInt8.max) ? count : block
  }

  /// Appends the padding.
  public static func pad(_ bytes: inout [UInt8]) {
    let count = paddedCount(of: bytes.count) - bytes.count
    bytes += [UInt8](repeating: UInt8(truncatingIfNeeded: count), count: count)
  }

  /// Length without padding: if the last byte is k > 0 and the last k bytes all equal k, these are padding.
  public static func unpaddedCount(of bytes: [UInt8]) -> Int {
    guard let last = bytes.last, last > 0, Int(last) <= bytes.count else { return bytes.count }
    let count = bytes.count - Int(last)
    return bytes[count...].allSatisfy { $0 == last } ? count : bytes.count
  }
}
