/// Compression in the gzip format (RFC 1952), one member.
public enum Gzip {
  /// One member that contains the bytes. It has no name and no time, so equal bytes have equal members.
  public static func compress(_ bytes: some Collection<UInt8>) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .gzip)
  }

  /// Inflates one member, and verifies its checksum and length.
  ///
  /// The output buffer grows with the inflated data, regardless of the size that the member declares, and ends one byte
  /// past `limit`. Throws `tooLarge` beyond `limit`, and `trailing` if anything follows the member, even a second
  /// member.
  public static func decompress(_ bytes: some Collection<UInt8>, limit: Int) throws(CompressionError) -> [UInt8] {
    try Zlib.inflate(bytes, format: .gzip, limit: limit)
  }
}
