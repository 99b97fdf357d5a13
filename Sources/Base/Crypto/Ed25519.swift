import CSodium

/// Signatures on Edwards25519 (RFC 8032, without prehash or context).
public enum Ed25519 {
  /// Size of a signature, in bytes.
  public static let signatureSize = 64

  /// The key that verifies signatures: 32 bytes.
  public struct PublicKey: Hashable, Sendable {
    private let key: KeyBytes
    public var bytes: [UInt8] { key.array }

    /// Calls `body` with the 32 bytes, without a copy.
    public func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
      key.withPointer { body(UnsafeRawBufferPointer(start: $0, count: KeyBytes.count)) }
    }

    /// Throws `badLength` for anything but 32 bytes.
    public init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
      try checkLength(bytes.count, is: Int(crypto_sign_PUBLICKEYBYTES), of: "Ed25519 public key")
      key = KeyBytes(bytes)
    }

    /// Whether the owner of this key signed exactly these bytes.
    ///
    /// The check is strict: it refuses a scalar that is not reduced, a point that is not canonical, and a key or
    /// commitment of low order. A signature cannot be changed into another valid one.
    public func verify(_ signature: some Collection<UInt8>, of message: some Collection<UInt8>) -> Bool {
      signature.withPointer { signature, signatureCount in
        message.withPointer { message, count in
          key.withPointer { key in
            signatureCount == signatureSize
              && crypto_sign_verify_detached(signature, message, UInt64(count), key) == 0
          }
        }
      }
    }
  }

  /// The key that signs. It is derived from a seed of 32 bytes, which is the part to store.
  public struct PrivateKey: Sendable {
    /// The seed from which the key is derived; it is the part to store.
    public let seed: SecretBytes
    public let publicKey: PublicKey
    // libsodium's form: the seed, followed by the public key.
    private let expanded: SecretBytes

    /// Makes a new key with a random seed.
    public init(randomFrom random: inout some RandomSource) {
      self.init(checked: SecretBytes(count: Int(crypto_sign_SEEDBYTES), randomFrom: &random))
    }

    /// A new key in pages that it shares with other keys (`SecretSlots`), for callers that create many keys.
    public init(inSlotsFrom random: inout some RandomSource) {
      let seed = SecretBytes(slot: Int(crypto_sign_SEEDBYTES), randomFrom: &random)
      var publicKey = [UInt8](repeating: 0, count: Int(crypto_sign_PUBLICKEYBYTES))
      self.seed = seed
      expanded = SecretBytes(
        slot: Int(crypto_sign_SECRETKEYBYTES),
        filledBy: { expanded in
          _ = seed.withPointer { seed, _ in crypto_sign_seed_keypair(&publicKey, expanded, seed) }
        })
      self.publicKey = PublicKey(checked: publicKey)
    }

    /// A stored key; throws `badLength` for anything but 32 bytes.
    public init(seed: SecretBytes) throws(CryptoError) {
      try checkLength(seed.count, is: Int(crypto_sign_SEEDBYTES), of: "Ed25519 seed")
      self.init(checked: seed)
    }

    /// Copies a seed from ordinary memory; throws `badLength` for anything but 32 bytes.
    public init(copyingSeed bytes: some Collection<UInt8>) throws(CryptoError) {
      try self.init(seed: SecretBytes(copying: bytes))
    }

    private init(checked seed: SecretBytes) {
      var publicKey = [UInt8](repeating: 0, count: Int(crypto_sign_PUBLICKEYBYTES))
      self.seed = seed
      expanded = SecretBytes(
        count: Int(crypto_sign_SECRETKEYBYTES),
        filledBy: { expanded in
          _ = seed.withPointer { seed, _ in crypto_sign_seed_keypair(&publicKey, expanded, seed) }
        })
      self.publicKey = PublicKey(checked: publicKey)
    }

    /// The 64-byte signature of the message. Equal messages have equal signatures.
    public func sign(_ message: some Collection<UInt8>) -> [UInt8] {
      message.withPointer { message, count in
        expanded.withPointer { key, _ in
          [UInt8](count: signatureSize) { _ = crypto_sign_detached($0, nil, message, UInt64(count), key) }
        }
      }
    }
  }
}

extension Ed25519.PublicKey {
  fileprivate init(checked bytes: [UInt8]) {
    key = KeyBytes(bytes)
  }
}

extension Ed25519.PrivateKey: CustomStringConvertible {
  public var description: String { "<secret>" }
}
