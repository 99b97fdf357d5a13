import CSodium

/// The keyed hash SipHash-2-4 with 128 bits of output. It is many times faster than SHA-256.
///
/// Whoever does not know the key cannot find two inputs of one hash, so it tells inputs apart in tables that strangers fill.
/// With a key that others know it tells nothing.
public struct KeyedHash: Sendable {
  /// How many bytes a key has.
  public static let keySize = Int(crypto_shorthash_siphashx24_KEYBYTES)

  /// A hash: its 16 bytes as two numbers, the first eight bytes in `low`, least significant first.
  public struct Value: Hashable, Sendable {
    public let low: UInt64
    public let high: UInt64
  }

  private let key: [UInt8]

  /// Throws `badLength` for a key that has not 16 bytes.
  public init(key: [UInt8]) throws(CryptoError) {
    try checkLength(key.count, is: Self.keySize, of: "hash key")
    self.key = key
  }

  /// A hash under a new key.
  public init(randomFrom random: inout some RandomSource) {
    key = random.bytes(Self.keySize)
  }

  /// The hash of the bytes.
  public func hash(_ bytes: UnsafeRawBufferPointer) -> Value {
    var hash: (UInt64, UInt64) = (0, 0)
    _ = withUnsafeMutableBytes(of: &hash) { hash in
      hash.bindMemory(to: UInt8.self).baseAddress.map { out in
        crypto_shorthash_siphashx24(out, bytes.bindMemory(to: UInt8.self).baseAddress, UInt64(bytes.count), key)
      }
    }
    return Value(low: UInt64(littleEndian: hash.0), high: UInt64(littleEndian: hash.1))
  }
}
