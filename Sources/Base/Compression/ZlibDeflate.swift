/// Compression in the zlib format (RFC 1950): two bytes of header, a deflate stream, and a checksum.
public enum ZlibDeflate {
  /// Compresses the bytes to one stream.
  public static func compress(
    _ bytes: some Collection<UInt8>, effort: DeflateEffort = .usual
  ) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .zlib, effort: effort)
  }

  /// Inflates one stream of exactly `count` bytes, and verifies its checksum.
  ///
  /// Memory for `count` bytes is allocated at once: compare `count` with a limit before. Throws `tooLarge` if the
  /// stream contains more, `wrongSize` if it contains fewer, and `trailing` if anything follows it.
  public static func decompress(_ bytes: some Collection<UInt8>, exactly count: Int) throws(CompressionError) -> [UInt8]
  {
    try Zlib.inflate(bytes, format: .zlib, exactly: count)
  }
}
