import CSodium

/// Key agreement on Curve25519 (RFC 7748).
public enum X25519 {
  /// The key that is sent to the peer: 32 bytes, the u-coordinate, least significant byte first.
  public struct PublicKey: Hashable, Sendable {
    private let key: KeyBytes
    public var bytes: [UInt8] { key.array }

    /// Calls `body` with the 32 bytes, without a copy.
    public func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
      key.withPointer { body(UnsafeRawBufferPointer(start: $0, count: KeyBytes.count)) }
    }

    /// Throws `badLength` for anything but 32 bytes. `sharedSecret` detects low-order points.
    public init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
      try checkLength(bytes.count, is: Int(crypto_scalarmult_BYTES), of: "X25519 public key")
      key = KeyBytes(bytes)
    }

    fileprivate init(of secret: SecretBytes) {
      key = secret.withPointer { scalar, _ in KeyBytes(filledBy: { _ = crypto_scalarmult_base($0, scalar) }) }
    }

    fileprivate func withPointer<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result { key.withPointer(body) }
  }

  /// The key that never leaves the machine: 32 bytes, clamped when used.
  public struct PrivateKey: Sendable {
    /// The key itself, for storing it.
    public let secret: SecretBytes
    public let publicKey: PublicKey

    /// Makes a new key with random bytes.
    public init(randomFrom random: inout some RandomSource) {
      secret = SecretBytes(count: Int(crypto_scalarmult_SCALARBYTES), randomFrom: &random)
      publicKey = PublicKey(of: secret)
    }

    /// A new key for one key exchange, in pages that it shares with other keys (`SecretSlots`).
    public init(ephemeralFrom random: inout some RandomSource) {
      secret = SecretBytes(slot: Int(crypto_scalarmult_SCALARBYTES), randomFrom: &random)
      publicKey = PublicKey(of: secret)
    }

    /// A stored key; throws `badLength` for anything but 32 bytes.
    public init(_ secret: SecretBytes) throws(CryptoError) {
      try checkLength(secret.count, is: Int(crypto_scalarmult_SCALARBYTES), of: "X25519 private key")
      self.secret = secret
      publicKey = PublicKey(of: secret)
    }

    /// Copies a key from ordinary memory; throws `badLength` for anything but 32 bytes.
    public init(copying bytes: some Collection<UInt8>) throws(CryptoError) {
      try self.init(SecretBytes(copying: bytes))
    }

    /// The 32 bytes that only the two owners can compute. They are input for a key derivation, not a key.
    ///
    /// Throws `weakKey` if the peer's key is a low-order point: then anybody could compute the bytes (RFC 7748
    /// section 6.1).
    public func sharedSecret(with peer: PublicKey) throws(CryptoError) -> SecretBytes {
      var status: Int32 = -1
      let shared = SecretBytes(
        count: Int(crypto_scalarmult_BYTES),
        filledBy: { shared in
          status = secret.withPointer { scalar, _ in peer.withPointer { crypto_scalarmult(shared, scalar, $0) } }
        })
      guard status == 0 else { throw .weakKey }
      return shared
    }

    /// Derives the next two keys from the shared secret and a chaining key, with `HKDF.nextKeys`. The shared secret is
    /// overwritten before the function returns.
    ///
    /// Throws `weakKey` if the peer's key is a low-order point, `badLength` for a chaining key of less than 32 bytes.
    public func nextKeys(with peer: PublicKey, chainingKey: SecretBytes) throws(CryptoError) -> SecretBytes {
      let size = Int(crypto_scalarmult_BYTES)
      let keys: SecretBytes?? = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: size) { shared in
        guard let address = shared.baseAddress else { return nil }
        defer { sodium_memzero(address, size) }
        let status = secret.withPointer { scalar, _ in peer.withPointer { crypto_scalarmult(address, scalar, $0) } }
        guard status == 0 else { return nil }
        return .some(HKDF.nextKeys(secret: UnsafeBufferPointer(shared), chainingKey: chainingKey))
      }
      guard let keys else { throw .weakKey }
      guard let keys else { throw .badLength("chaining key", expected: HMACSHA256.size, got: chainingKey.count) }
      return keys
    }
  }
}

extension X25519.PrivateKey: CustomStringConvertible {
  public var description: String { "<secret>" }
}

/// The 32 bytes of a public key, stored inline. A node stores thousands of keys, and one array for each would take more
/// than twice the memory.
struct KeyBytes: Hashable, Sendable {
  static let count = 32

  private var first: UInt64 = 0
  private var second: UInt64 = 0
  private var third: UInt64 = 0
  private var fourth: UInt64 = 0

  /// Lets `fill` write the 32 bytes.
  init(filledBy fill: (UnsafeMutablePointer<UInt8>) -> Void) {
    withUnsafeMutablePointer(to: &self) { $0.withMemoryRebound(to: UInt8.self, capacity: Self.count) { fill($0) } }
  }

  /// Copies 32 bytes into the array.
  init(_ bytes: some Collection<UInt8>) {
    precondition(bytes.count == Self.count)
    self.init(filledBy: { room in bytes.withPointer { source, count in room.update(from: source, count: count) } })
  }

  var array: [UInt8] { withPointer { Array(UnsafeBufferPointer(start: $0, count: Self.count)) } }

  func withPointer<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
    withUnsafePointer(to: self) { $0.withMemoryRebound(to: UInt8.self, capacity: Self.count) { body($0) } }
  }
}
