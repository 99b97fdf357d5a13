/// Compression in the deflate format alone (RFC 1951), without header or checksum.
public enum RawDeflate {
  /// The bytes as one deflate stream. The same bytes at the same effort have the same stream on every machine with the same
  /// release of zlib, and on no other one for certain.
  public static func compress(
    _ bytes: some Collection<UInt8>, effort: DeflateEffort = .usual
  ) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .raw, effort: effort)
  }

  /// The bytes that the stream holds.
  ///
  /// The output grows with what is inflated and stops one byte past `limit`. Throws `tooLarge` beyond `limit`, and
  /// `trailing` if anything follows the stream.
  public static func decompress(_ bytes: some Collection<UInt8>, limit: Int) throws(CompressionError) -> [UInt8] {
    try Zlib.inflate(bytes, format: .raw, limit: limit)
  }

  /// The `count` bytes that the stream holds.
  ///
  /// Memory for `count` bytes is taken at once: compare `count` with a limit before. Throws `tooLarge` if the stream holds
  /// more, `wrongSize` if it holds fewer, and `trailing` if anything follows it.
  public static func decompress(_ bytes: some Collection<UInt8>, exactly count: Int) throws(CompressionError) -> [UInt8]
  {
    try Zlib.inflate(bytes, format: .raw, exactly: count)
  }
}
