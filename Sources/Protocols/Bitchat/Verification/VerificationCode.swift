import Bytes
import Crypto

/// Content of the QR code with which two people verify each other. Facts: bitchat.md section 11. Layout:
///
///     bitchat://verify?v=1&noise=<64 digits>&sign=<64 digits>&nick=&ts=<seconds>&nonce=&sig=<128 digits>&npub=
///
/// The signature covers these fields, each with a length prefix of one byte: "bitchat-verify-v1", version, noise, sign,
/// npub or an empty text, nick, ts, nonce.
public struct VerificationCode: Hashable, Sendable {
  public let noiseKey: X25519.PublicKey
  public let signingKey: Ed25519.PublicKey
  /// Up to 255 bytes.
  public let nickname: String
  /// Nostr public key as text, up to 255 bytes; nil if absent.
  public let npub: String?
  /// When the code was made, in seconds since 1970.
  public let seconds: Int64
  /// Text, up to 255 bytes; 22 characters of base64url from this node.
  public let nonce: String
  /// 64 bytes.
  public let signature: [UInt8]

  /// Makes and signs a new code. Throws `tooLong` for a nickname or npub over 255 bytes.
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

  /// Whether the code's time is within 5 minutes of `now`, in seconds since 1970. It may also be later, because clocks
  /// differ.
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
