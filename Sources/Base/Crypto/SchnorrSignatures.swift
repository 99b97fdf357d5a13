import CSecp256k1
import CSodium

extension Secp256k1 {
  /// The X coordinate of a point of the curve: 32 bytes, most significant first. It stands for the point with the even
  /// Y coordinate (BIP-340, "Public key conversion").
  public struct XOnlyKey: Sendable {
    public static let size = 32
    /// The size of a Schnorr signature, in bytes.
    public static let signatureSize = 64

    public let bytes: [UInt8]

    /// The key with the given X coordinate.
    ///
    /// - Throws: `badLength` if there are not 32 bytes, `invalidKey` if no point of the curve has this coordinate.
    public init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
      try checkLength(bytes.count, is: Self.size, of: "secp256k1 X coordinate")
      let bytes = Array(bytes)
      var parsed = secp256k1_xonly_pubkey()
      guard secp256k1_xonly_pubkey_parse(try Context.shared(), &parsed, bytes) == 1 else {
        throw .invalidKey("secp256k1 X coordinate")
      }
      self.bytes = bytes
    }

    /// Whether the signature is one of the owner of this key over the message (BIP-340, "Verification"). A signature
    /// that is not 64 bytes long is wrong.
    ///
    /// - Parameter message: usually a hash of 32 bytes; any length is allowed.
    public func hasSigned(_ message: [UInt8], signature: [UInt8]) -> Bool {
      guard signature.count == Self.signatureSize, let context = try? Context.shared() else { return false }
      var parsed = secp256k1_xonly_pubkey()
      guard secp256k1_xonly_pubkey_parse(context, &parsed, bytes) == 1 else { return false }
      return message.withPointer { message, count in
        secp256k1_schnorrsig_verify(context, signature, message, count, &parsed) == 1
      }
    }

    /// The point with this X coordinate and an even Y coordinate.
    ///
    /// - Throws: `unavailable` if the library has no memory for its tables.
    public func evenPoint() throws(CryptoError) -> PublicKey {
      let context = try Context.shared()
      var parsed = secp256k1_pubkey()
      guard secp256k1_ec_pubkey_parse(context, &parsed, [0x02] + bytes, 1 + Self.size) == 1 else {
        throw .invalidKey("secp256k1 X coordinate")
      }
      var size = PublicKey.pointSize
      let point = [UInt8](count: size) { point in
        _ = secp256k1_ec_pubkey_serialize(context, point, &size, &parsed, UInt32(SECP256K1_EC_UNCOMPRESSED))
      }
      return try PublicKey(point: point)
    }
  }
}

extension Secp256k1.PublicKey {
  /// The X coordinate of this point.
  public var xOnly: Secp256k1.XOnlyKey { Secp256k1.XOnlyKey(of: self) }
}

extension Secp256k1.XOnlyKey {
  fileprivate init(of key: Secp256k1.PublicKey) {
    bytes = Array(key.point.dropFirst().prefix(Self.size))
  }
}

extension Secp256k1.PrivateKey {
  /// The X coordinate of the public key, which verifies this key's Schnorr signatures.
  public var xOnlyKey: Secp256k1.XOnlyKey { publicKey.xOnly }

  /// Signs a hash (BIP-340, "Default signing"). The signature has 64 bytes.
  ///
  /// - Parameter random: gives 32 auxiliary bytes, which protect the key against side channels. The signature is secure
  ///   even if they are not random.
  /// - Throws: `badLength` if the hash is not 32 bytes long, `unavailable` if the library has no memory for its tables.
  public func sign(
    hash: [UInt8], randomFrom random: inout some RandomSource
  ) throws(CryptoError) -> [UInt8] {
    try checkLength(hash.count, is: 32, of: "hash to sign")
    let context = try Secp256k1.Context.shared()
    let auxiliary = random.bytes(32)
    var pair = secp256k1_keypair()
    defer { sodium_memzero(&pair, MemoryLayout.size(ofValue: pair)) }
    guard secret.withPointer({ scalar, _ in secp256k1_keypair_create(context, &pair, scalar) }) == 1 else {
      throw .invalidKey("secp256k1 private key")
    }
    var status: Int32 = 0
    let signature = [UInt8](count: Secp256k1.XOnlyKey.signatureSize) { signature in
      status = secp256k1_schnorrsig_sign32(context, signature, hash, &pair, auxiliary)
      if status != 1 { sodium_memzero(signature, Secp256k1.XOnlyKey.signatureSize) }
    }
    guard status == 1 else { throw .unavailable("a Schnorr signature") }
    return signature
  }

  /// The product of this key and the peer's point in compressed form: 33 bytes, 02 or 03 and the X coordinate. It is
  /// input for a key derivation, not a key.
  ///
  /// The peer's point is the one with the even Y coordinate. Its negative gives the same X coordinate, and the other
  /// first byte.
  ///
  /// - Throws: `unavailable` if the library has no memory for its tables, `invalidKey` if it refuses a key.
  public func sharedPoint(with peer: Secp256k1.XOnlyKey) throws(CryptoError) -> SecretBytes {
    let context = try Secp256k1.Context.shared()
    var point = try peer.evenPoint().parsed
    var status: Int32 = 0
    let size = 1 + Secp256k1.scalarSize
    let shared = SecretBytes(
      slot: size,
      filledBy: { shared in
        status = secret.withPointer { scalar, _ in
          secp256k1_ecdh(
            context, shared, &point, scalar,
            { output, x, y, _ in
              guard let output, let x, let y else { return 0 }
              output[0] = 0x02 | y[Secp256k1.scalarSize - 1] & 1
              (output + 1).update(from: x, count: Secp256k1.scalarSize)
              return 1
            }, nil)
        }
        if status != 1 { sodium_memzero(shared, size) }
      })
    guard status == 1 else { throw .invalidKey("secp256k1 private key") }
    return shared
  }
}

extension Secp256k1.XOnlyKey: Hashable, CustomStringConvertible {
  public var description: String { "secp256k1 X coordinate" }
}
