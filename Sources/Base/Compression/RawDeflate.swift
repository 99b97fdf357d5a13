/// Compression in the plain deflate format (RFC 1951), without header or checksum.
public enum RawDeflate {
  /// Compresses the bytes to one deflate stream. Equal bytes and effort give equal streams with the same release of
  /// zlib; another release may give another stream.
  public static func compress(
    _ bytes: some Collection<UInt8>, effort: DeflateEffort = .usual
  ) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .raw, effort: effort)
  }

  /// Inflates one stream.
  ///
  /// The output buffer grows with the inflated data and ends one byte past `limit`. Throws `tooLarge` beyond `limit`,
  /// and `trailing` if anything follows the stream.
  public static func decompress(_ bytes: some Collection<UInt8>, limit: Int) throws(CompressionError) -> [UInt8] {
    try Zlib.inflate(bytes, format: .raw, limit: limit)
  }

  /// Inflates one stream of exactly `count` bytes.
  ///
  /// Memory for `count` bytes is allocated at once: compare `count` with a limit before. Throws `tooLarge` if the
  /// stream contains more, `wrongSize` if it contains fewer, and `trailing` if anything follows it.
  public static func decompress(_ bytes: some Collection<UInt8>, exactly count: Int) throws(CompressionError) -> [UInt8]
  {
    try Zlib.inflate(bytes, format: .raw, exactly: count)
  }
}
