/// Compression in the zlib format (RFC 1950): a deflate stream behind two bytes of header and before a checksum.
public enum ZlibDeflate {
  /// The bytes as one stream.
  public static func compress(
    _ bytes: some Collection<UInt8>, effort: DeflateEffort = .usual
  ) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .zlib, effort: effort)
  }

  /// The `count` bytes that the stream holds. The stream's checksum is verified.
  ///
  /// Memory for `count` bytes is taken at once: compare `count` with a limit before. Throws `tooLarge` if the stream holds
  /// more, `wrongSize` if it holds fewer, and `trailing` if anything follows it.
  public static func decompress(_ bytes: some Collection<UInt8>, exactly count: Int) throws(CompressionError) -> [UInt8]
  {
    try Zlib.inflate(bytes, format: .zlib, exactly: count)
  }
}
