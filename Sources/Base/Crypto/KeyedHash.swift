import CSodium

/// The keyed hash SipHash-2-4 with 128 bits of output. It is many times faster than SHA-256.
///
/// An attacker who does not know the key cannot find two inputs with the same hash. It identifies inputs in tables that
/// untrusted peers fill. With a key that others know, the hash gives no such protection.
public struct KeyedHash: Sendable {
  /// Size of a key, in bytes.
  public static let keySize = Int(crypto_shorthash_siphashx24_KEYBYTES)

  /// A hash of 16 bytes as two numbers: the first eight bytes in `low`, least significant byte first.
  public struct Value: Hashable, Sendable {
    public let low: UInt64
    public let high: UInt64
  }

  private let key: [UInt8]

  /// Throws `badLength` for anything but 16 bytes.
  public init(key: [UInt8]) throws(CryptoError) {
    try checkLength(key.count, is: Self.keySize, of: "hash key")
    self.key = key
  }

  /// A hash under a new key.
  public init(randomFrom random: inout some RandomSource) {
    key = random.bytes(Self.keySize)
  }

  /// Returns the keyed hash of the bytes.
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
