/// How hard zlib tries. A protocol that signs compressed bytes names all three numbers, because each changes the bytes.
public struct DeflateEffort: Hashable, Sendable {
  /// 0 stores, 1 is fastest, 9 is smallest; -1 is zlib's own choice, 6.
  public let level: Int32
  /// The window has 2^`windowBits` bytes: 9 to 15.
  public let windowBits: Int32
  /// Memory for the compressor's state: 1 to 9.
  public let memoryLevel: Int32

  /// Numbers outside of zlib's ranges are brought to the nearest one inside.
  public init(level: Int, windowBits: Int = 15, memoryLevel: Int = 8) {
    self.level = Int32(clamping: min(9, max(-1, level)))
    self.windowBits = Int32(clamping: min(15, max(9, windowBits)))
    self.memoryLevel = Int32(clamping: min(9, max(1, memoryLevel)))
  }

  /// What zlib does if nothing is asked of it.
  public static let usual = DeflateEffort(level: -1)
}
