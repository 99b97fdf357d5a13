import COpenSSL
import CSodium

/// The hash SHA-256 (FIPS 180-4).
///
/// `hash` takes a whole message; a value of this type takes it in portions.
public struct SHA256: Sendable {
  /// Size of a hash, in bytes.
  public static let size = Int(crypto_hash_sha256_BYTES)

  private var state = crypto_hash_sha256_state()

  public init() {
    crypto_hash_sha256_init(&state)
  }

  /// The 32-byte hash of the bytes.
  public static func hash(_ bytes: some Collection<UInt8>) -> [UInt8] {
    bytes.withPointer { bytes, count in
      [UInt8](count: size) { _ = crypto_hash_sha256($0, bytes, UInt64(count)) }
    }
  }

  /// Adds the next portion of the input to the hash.
  public mutating func update(_ bytes: some Collection<UInt8>) {
    _ = bytes.withPointer { crypto_hash_sha256_update(&state, $0, UInt64($1)) }
  }

  /// The 32-byte hash of the portions so far. More portions may follow.
  public func finish() -> [UInt8] {
    var state = state
    return [UInt8](count: Self.size) { _ = crypto_hash_sha256_final(&state, $0) }
  }
}

/// The hash SHA-512 (FIPS 180-4).
///
/// `hash` takes a whole message; a value of this type takes it in portions.
public struct SHA512: Sendable {
  /// The number of bytes in a hash.
  public static let size = Int(crypto_hash_sha512_BYTES)

  private var state = crypto_hash_sha512_state()

  public init() {
    crypto_hash_sha512_init(&state)
  }

  /// The 64-byte hash of the bytes.
  public static func hash(_ bytes: some Collection<UInt8>) -> [UInt8] {
    bytes.withPointer { bytes, count in
      [UInt8](count: size) { _ = crypto_hash_sha512($0, bytes, UInt64(count)) }
    }
  }

  /// Adds the next portion of the input to the hash.
  public mutating func update(_ bytes: some Collection<UInt8>) {
    _ = bytes.withPointer { crypto_hash_sha512_update(&state, $0, UInt64($1)) }
  }

  /// The 64-byte hash of the portions so far. More portions may follow.
  public func finish() -> [UInt8] {
    var state = state
    return [UInt8](count: Self.size) { _ = crypto_hash_sha512_final(&state, $0) }
  }
}

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
