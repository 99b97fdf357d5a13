/// Compression in the deflate format alone (RFC 1951), without header or checksum.
public enum RawDeflate {
  /// The bytes as one deflate stream.
  public static func compress(_ bytes: some Collection<UInt8>) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .raw)
  }

  /// The bytes that the stream holds.
  ///
  /// The output grows with what is inflated and stops one byte past `limit`. Throws `tooLarge` beyond `limit`, and
  /// `trailing` if anything follows the stream.
  public static func decompress(_ bytes: some Collection<UInt8>, limit: Int) throws(CompressionError) -> [UInt8] {
    try Zlib.inflate(bytes, format: .raw, limit: limit)
  }
}
