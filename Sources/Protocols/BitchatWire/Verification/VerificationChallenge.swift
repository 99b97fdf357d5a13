import Bytes
import Crypto

/// Challenge to a peer to prove that it has the keys of its verification code: records of one byte of type and one of
/// length. Facts: bitchat.md section 11. Layout:
///
///     01  Noise static public key of the challenged peer, 64 hexadecimal digits
///     02  nonce, 1 to 255 bytes; 16 from this node
public struct VerificationChallenge: Hashable, Sendable {
  public let noiseKey: X25519.PublicKey
  public let nonce: [UInt8]

  /// Makes a challenge with a new nonce.
  public init(noiseKey: X25519.PublicKey, randomFrom random: inout some RandomSource) {
    self.noiseKey = noiseKey
    nonce = random.bytes(16)
  }

  /// Throws `badValue` for an empty nonce, and `tooLong` for one over 255 bytes.
  package init(noiseKey: X25519.PublicKey, nonce: [UInt8]) throws(WireError) {
    guard !nonce.isEmpty else { throw .badValue("nonce") }
    guard nonce.count <= Limits.shortValueBytes else { throw .tooLong(field: "nonce", limit: Limits.shortValueBytes) }
    self.noiseKey = noiseKey
    self.nonce = nonce
  }

  package init(reading bytes: ArraySlice<UInt8>) throws(WireError) {
    try self.init(ShortTLV.all(in: bytes))
  }

  package init(_ records: [TLV]) throws(WireError) {
    guard let key = records.first(where: { $0.type == 0x01 }) else { throw .badValue("noiseKey") }
    guard let nonce = records.first(where: { $0.type == 0x02 }) else { throw .badValue("nonce") }
    let digits = try Hex.decode(Text.read(key.value, field: "noiseKey"))
    try self.init(noiseKey: Announcement.noiseKey(digits[...]), nonce: Array(nonce.value))
  }

  package var records: [(UInt8, [UInt8])] { [(0x01, digits), (0x02, nonce)] }

  package func write(to writer: inout ByteWriter) { ShortTLV.write(records, to: &writer) }

  /// Bytes that the peer signs to answer.
  var signedBytes: [UInt8] {
    Array("bitchat-verify-resp-v1".utf8) + [UInt8(digits.count)] + digits + nonce
  }

  private var digits: [UInt8] { Array(Hex.encode(noiseKey.bytes).utf8) }
}

/// Answer to a `VerificationChallenge`: the records of the challenge, and a signature. Facts: bitchat.md section 11.
/// Layout:
///
///     03  Ed25519 signature over "bitchat-verify-resp-v1", the key's length (1) and digits, and the nonce
public struct VerificationResponse: Hashable, Sendable {
  public let challenge: VerificationChallenge
  /// Ed25519 signature of the challenged peer, 64 bytes.
  public let signature: [UInt8]

  /// Answers a challenge. The caller must check that the challenge names this node's key.
  public init(to challenge: VerificationChallenge, key: Ed25519.PrivateKey) {
    self.challenge = challenge
    signature = key.sign(challenge.signedBytes)
  }

  package init(reading bytes: ArraySlice<UInt8>) throws(WireError) {
    let records = try ShortTLV.all(in: bytes)
    challenge = try VerificationChallenge(records)
    guard let signature = records.first(where: { $0.type == 0x03 })?.value,
      signature.count == Ed25519.signatureSize
    else { throw .badValue("signature") }
    self.signature = Array(signature)
  }

  /// Whether the owner of `key` answered this challenge.
  public func answers(_ asked: VerificationChallenge, key: Ed25519.PublicKey) -> Bool {
    challenge == asked && key.verify(signature, of: asked.signedBytes)
  }

  package func write(to writer: inout ByteWriter) {
    ShortTLV.write(challenge.records + [(0x03, signature)], to: &writer)
  }
}
