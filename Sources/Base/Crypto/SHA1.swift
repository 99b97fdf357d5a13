import COpenSSL

/// The hash SHA-1 (FIPS 180-4), which is broken as a signature hash. Protocols use it as an identifier: the WebSocket
/// handshake (RFC 6455 section 4.2.2).
public enum SHA1 {
  /// Size of a hash, in bytes.
  public static let size = 20

  /// The 20-byte hash of the bytes.
  public static func hash(_ bytes: some Collection<UInt8>) throws(CryptoError) -> [UInt8] {
    var hash = [UInt8](repeating: 0, count: size)
    var count: UInt32 = 0
    let isDone = bytes.withPointer { bytes, length in
      EVP_Digest(bytes, length, &hash, &count, EVP_sha1(), nil) == 1
    }
    guard isDone, count == size else { throw .unavailable("SHA-1") }
    return hash
  }
}
