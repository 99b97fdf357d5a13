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

  /// Adds the next portion.
  public mutating func update(_ bytes: some Collection<UInt8>) {
    _ = bytes.withPointer { crypto_hash_sha256_update(&state, $0, UInt64($1)) }
  }

  /// The 32-byte hash of the portions so far. More portions may follow.
  public func finish() -> [UInt8] {
    var state = state
    return [UInt8](count: Self.size) { _ = crypto_hash_sha256_final(&state, $0) }
  }
}
