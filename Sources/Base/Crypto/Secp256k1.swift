import CSecp256k1
import CSodium

/// Key agreement and signatures on the curve secp256k1 (SEC 2 section 2.4.1). `SchnorrSignatures.swift` has the
/// signatures.
public enum Secp256k1 {
  /// The size of a private key and of an agreed secret, in bytes.
  public static let scalarSize = 32

  /// A point of the curve, which the owner of the private key publishes.
  ///
  /// Two forms exist on the wire, both with an uncompressed point:
  ///
  ///     point   65  04, X (32, big endian), Y (32, big endian)
  ///     SPKI    88  X.509 SubjectPublicKeyInfo: 23 fixed bytes (`infoPrefix`), then the point
  ///
  /// Compressed (02, 03) and hybrid (06, 07) points are refused, so that one key has one text, and one hash.
  public struct PublicKey: Sendable {
    /// The size of an uncompressed point, in bytes.
    public static let pointSize = 65
    /// The size of a SubjectPublicKeyInfo, in bytes.
    public static let infoSize = infoPrefix.count + pointSize
    /// The first octet of an uncompressed point.
    public static let pointMark: UInt8 = 0x04
    /// SEQUENCE { SEQUENCE { id-ecPublicKey, secp256k1 }, BIT STRING of 66 bytes with 0 unused bits }.
    public static let infoPrefix: [UInt8] = [
      0x30, 0x56, 0x30, 0x10, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x05, 0x2B, 0x81, 0x04, 0x00,
      0x0A, 0x03, 0x42, 0x00,
    ]

    /// The public key as an uncompressed point: 04, X and Y, 65 bytes.
    public let point: [UInt8]
    let parsed: secp256k1_pubkey

    /// The key with the given uncompressed point.
    ///
    /// - Throws: `badLength` if there are not 65 bytes, `invalidKey` if the first byte is not 04 or the point is not
    ///   on the curve.
    public init(point bytes: some Collection<UInt8>) throws(CryptoError) {
      try checkLength(bytes.count, is: Self.pointSize, of: "secp256k1 point")
      let point = Array(bytes)
      // The library also takes the hybrid forms 06 and 07.
      guard point.first == Self.pointMark else { throw .invalidKey("secp256k1 point") }
      var parsed = secp256k1_pubkey()
      guard secp256k1_ec_pubkey_parse(try Context.shared(), &parsed, point, point.count) == 1 else {
        throw .invalidKey("secp256k1 point")
      }
      (self.point, self.parsed) = (point, parsed)
    }

    /// The key in the given SubjectPublicKeyInfo.
    ///
    /// - Throws: `badLength` if there are not 88 bytes. Throws `invalidKey` if the first 23 bytes are not `infoPrefix`,
    ///   if the next one is not 04, or if the point is not on the curve.
    public init(info bytes: some Collection<UInt8>) throws(CryptoError) {
      try checkLength(bytes.count, is: Self.infoSize, of: "secp256k1 SubjectPublicKeyInfo")
      guard bytes.starts(with: Self.infoPrefix) else { throw .invalidKey("secp256k1 SubjectPublicKeyInfo") }
      try self.init(point: bytes.dropFirst(Self.infoPrefix.count))
    }

    fileprivate init(of secret: SecretBytes) throws(CryptoError) {
      let context = try Context.shared()
      var parsed = secp256k1_pubkey()
      guard secret.withPointer({ scalar, _ in secp256k1_ec_pubkey_create(context, &parsed, scalar) }) == 1 else {
        throw .invalidKey("secp256k1 private key")
      }
      var size = Self.pointSize
      point = [UInt8](count: size) { point in
        _ = secp256k1_ec_pubkey_serialize(context, point, &size, &parsed, UInt32(SECP256K1_EC_UNCOMPRESSED))
      }
      self.parsed = parsed
    }

    /// The public key as a SubjectPublicKeyInfo in DER, 88 bytes.
    public var info: [UInt8] { Self.infoPrefix + point }
  }

  /// A number from 1 to the order of the curve minus 1, as 32 bytes, most significant first.
  public struct PrivateKey: Sendable {
    /// The key itself, for storing it.
    public let secret: SecretBytes
    public let publicKey: PublicKey

    /// Draws a key from `random`.
    ///
    /// - Throws: `unavailable` if the library has no memory for its tables, or if 16 draws give no key, which a
    ///   generator of random numbers does with a probability below 2^-2000.
    public init(randomFrom random: inout some RandomSource) throws(CryptoError) {
      for _ in 0..<16 {
        do throws(CryptoError) {
          try self.init(SecretBytes(slot: scalarSize, randomFrom: &random))
          return
        } catch .invalidKey {
          continue
        }
      }
      throw .unavailable("a source of randomness for a secp256k1 key")
    }

    /// A stored key.
    ///
    /// - Throws: `badLength` if there are not 32 bytes, `invalidKey` if the number is 0 or not below the order of the
    ///   curve.
    public init(_ secret: SecretBytes) throws(CryptoError) {
      try checkLength(secret.count, is: scalarSize, of: "secp256k1 private key")
      self.secret = secret
      publicKey = try PublicKey(of: secret)
    }

    /// A copy of a key in ordinary memory; throws like `init(_:)`.
    public init(copying bytes: some Collection<UInt8>) throws(CryptoError) {
      try self.init(SecretBytes(copying: bytes))
    }

    /// The X coordinate of the product of this key and the peer's point: 32 bytes, most significant first, with leading
    /// zeros. It is input for a key derivation, not a key.
    ///
    /// The duration does not depend on the keys. The curve has a prime order, so every point on it gives a secret.
    ///
    /// - Throws: `unavailable` if the library has no memory for its tables, `invalidKey` if it refuses this key.
    public func sharedX(with peer: PublicKey) throws(CryptoError) -> SecretBytes {
      let context = try Context.shared()
      var point = peer.parsed
      var status: Int32 = 0
      let shared = SecretBytes(
        slot: scalarSize,
        filledBy: { shared in
          status = secret.withPointer { scalar, _ in
            // The library's default is a hash of the compressed point; this one returns X as it is.
            secp256k1_ecdh(
              context, shared, &point, scalar,
              { output, x, _, _ in
                guard let output, let x else { return 0 }
                output.update(from: x, count: Secp256k1.scalarSize)
                return 1
              }, nil)
          }
          if status != 1 { sodium_memzero(shared, scalarSize) }
        })
      guard status == 1 else { throw .invalidKey("secp256k1 private key") }
      return shared
    }
  }

  /// The library's tables for all threads, created once and blinded against side channels with random bytes.
  struct Context: @unchecked Sendable {
    // No thread owns the context: after `init` nothing changes it, and the library allows any number of readers.
    private let pointer: OpaquePointer?

    private init() {
      Sodium.start()
      guard let context = secp256k1_context_create(UInt32(SECP256K1_CONTEXT_NONE)) else {
        pointer = nil
        return
      }
      var random = SystemRandom()
      var seed = random.bytes(scalarSize)
      let status = secp256k1_context_randomize(context, seed)
      seed.wipe()
      if status != 1 { secp256k1_context_destroy(context) }
      pointer = status == 1 ? context : nil
    }

    private static let made = Context()

    static func shared() throws(CryptoError) -> OpaquePointer {
      guard let pointer = made.pointer else { throw .unavailable("secp256k1") }
      return pointer
    }
  }
}

extension Secp256k1.PublicKey: Hashable {
  public static func == (first: Self, second: Self) -> Bool { first.point == second.point }

  public func hash(into hasher: inout Hasher) { hasher.combine(point) }
}

extension Secp256k1.PublicKey: CustomStringConvertible {
  public var description: String { "secp256k1 public key" }
}

extension Secp256k1.PrivateKey: CustomStringConvertible {
  public var description: String { "<secret>" }
}
