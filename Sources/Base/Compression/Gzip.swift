/// Compression in the gzip format (RFC 1952), one member.
public enum Gzip {
  /// One member that holds the bytes, without name or time, so equal bytes have equal members.
  public static func compress(_ bytes: some Collection<UInt8>) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .gzip)
  }

  /// The bytes that one member holds, its checksum and length verified.
  ///
  /// The output grows with what is really inflated and stops one byte past `limit`; no declared size is believed.
  /// Throws `trailing` if anything follows the member, a second member too.
  public static func decompress(_ bytes: some Collection<UInt8>, limit: Int) throws(CompressionError) -> [UInt8] {
    try Zlib.inflate(bytes, format: .gzip, limit: limit)
  }
}
