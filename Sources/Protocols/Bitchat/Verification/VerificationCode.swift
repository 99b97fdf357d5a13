import Bytes
import Crypto

/// The content of the QR code by which two people verify each other. Facts: bitchat.md section 11. Layout:
///
///     bitchat://verify?v=1&noise=<64 digits>&sign=<64 digits>&nick=&ts=<seconds>&nonce=&sig=<128 digits>&npub=
///
/// The signature is over fields behind one byte of length each: "bitchat-verify-v1", version, noise, sign, npub or nothing,
/// nick, ts, nonce.
public struct VerificationCode: Hashable, Sendable {
  public let noiseKey: X25519.PublicKey
  public let signingKey: Ed25519.PublicKey
  /// Up to 255 bytes.
  public let nickname: String
  /// The Nostr public key as text, up to 255 bytes; nil if there is none.
  public let npub: String?
  /// When the code was made, in seconds since 1970.
  public let seconds: Int64
  /// Text, up to 255 bytes: 22 digits of base64url when we make it.
  public let nonce: String
  /// 64 bytes.
  public let signature: [UInt8]

  /// A new code. Throws `tooLong` for a nickname or npub over 255 bytes.
  public init(
    noiseKey: X25519.PublicKey, key: Ed25519.PrivateKey, nickname: String, npub: String? = nil, seconds: Int64,
    randomFrom random: inout some RandomSource
  ) throws(WireError) {
    try self.init(
      noiseKey: noiseKey, key: key, nickname: nickname, npub: npub, seconds: seconds,
      nonce: Base64URL.encode(random.bytes(16)))
  }

  init(
    noiseKey: X25519.PublicKey, key: Ed25519.PrivateKey, nickname: String, npub: String?, seconds: Int64, nonce: String
  ) throws(WireError) {
    let unsigned = try VerificationCode(
      noiseKey: noiseKey, signingKey: key.publicKey, nickname: nickname, npub: npub, seconds: seconds, nonce: nonce,
      signature: [])
    try self.init(
      noiseKey: noiseKey, signingKey: key.publicKey, nickname: nickname, npub: npub, seconds: seconds, nonce: nonce,
      signature: key.sign(unsigned.signedBytes))
  }

  init(
    noiseKey: X25519.PublicKey, signingKey: Ed25519.PublicKey, nickname: String, npub: String?, seconds: Int64,
    nonce: String, signature: [UInt8]
  ) throws(WireError) {
    try Text.check(nickname, field: "nick")
    try Text.check(npub ?? "", field: "npub")
    try Text.check(nonce, field: "nonce")
    self.noiseKey = noiseKey
    self.signingKey = signingKey
    self.nickname = nickname
    self.npub = npub
    self.seconds = seconds
    self.nonce = nonce
    self.signature = signature
  }

  public var peerID: PeerID { PeerID(noiseKey: noiseKey) }

  /// Whether the owner of `signingKey` signed the code.
  public var isSigned: Bool { signingKey.verify(signature, of: signedBytes) }

  /// Whether the code was made within 5 minutes of `now`, in seconds since 1970: before it, or after it by a clock that is
  /// ahead.
  public func isFresh(at now: Int64) -> Bool {
    let (age, overflow) = now.subtractingReportingOverflow(seconds)
    return !overflow && (-Limits.codeSeconds...Limits.codeSeconds).contains(age)
  }

  var signedBytes: [UInt8] {
    let fields = [
      "bitchat-verify-v1", Self.version, Hex.encode(noiseKey.bytes), Hex.encode(signingKey.bytes), npub ?? "", nickname,
      "\(seconds)", nonce,
    ]
    return fields.flatMap { [UInt8(clamping: $0.utf8.count)] + $0.utf8 }
  }

  static let version = "1"
}
