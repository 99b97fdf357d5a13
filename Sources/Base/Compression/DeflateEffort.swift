/// Parameters of zlib's compressor. A protocol that signs compressed bytes specifies all three, because each changes
/// the bytes.
public struct DeflateEffort: Hashable, Sendable {
  /// Compression level: 0 stores, 1 is fastest, 9 is smallest; -1 is zlib's default, 6.
  public let level: Int32
  /// Base-2 logarithm of the window size in bytes: 9 to 15.
  public let windowBits: Int32
  /// Memory for the compressor's state: 1 to 9.
  public let memoryLevel: Int32

  /// Values outside zlib's ranges are limited to the nearest valid value.
  public init(level: Int, windowBits: Int = 15, memoryLevel: Int = 8) {
    self.level = Int32(clamping: min(9, max(-1, level)))
    self.windowBits = Int32(clamping: min(15, max(9, windowBits)))
    self.memoryLevel = Int32(clamping: min(9, max(1, memoryLevel)))
  }

  /// zlib's default parameters.
  public static let usual = DeflateEffort(level: -1)
}
