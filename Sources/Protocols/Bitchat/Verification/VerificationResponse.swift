import Bytes
import Crypto

/// Answer to a `VerificationChallenge`: the records of the challenge, and a signature. Facts: bitchat.md section 11.
/// Layout:
///
///     03  Ed25519 signature over "bitchat-verify-resp-v1", the key's length (1) and digits, and the nonce
public struct VerificationResponse: Hashable, Sendable {
  public let challenge: VerificationChallenge
  /// 64 bytes.
  public let signature: [UInt8]

  /// Answers a challenge. The caller must check that the challenge names this node's key.
  public init(to challenge: VerificationChallenge, key: Ed25519.PrivateKey) {
    self.challenge = challenge
    signature = key.sign(challenge.signedBytes)
  }

  init(reading bytes: ArraySlice<UInt8>) throws(WireError) {
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

  func write(to writer: inout ByteWriter) {
    ShortTLV.write(challenge.records + [(0x03, signature)], to: &writer)
  }
}
