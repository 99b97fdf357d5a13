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
  /// Nickname of the owner, up to 255 bytes.
  public let nickname: String
  /// Nostr public key as text, up to 255 bytes; nil if absent.
  public let npub: String?
  /// When the code was made, in seconds since 1970.
  public let seconds: Int64
  /// Nonce as text, up to 255 bytes; 22 characters of base64url from this node.
  public let nonce: String
  /// Ed25519 signature of the code's fields, 64 bytes.
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

  package init(
    noiseKey: X25519.PublicKey, key: Ed25519.PrivateKey, nickname: String, npub: String?, seconds: Int64, nonce: String
  ) throws(WireError) {
    let unsigned = try VerificationCode(
      noiseKey: noiseKey, signingKey: key.publicKey, nickname: nickname, npub: npub, seconds: seconds, nonce: nonce,
      signature: [])
    try self.init(
      noiseKey: noiseKey, signingKey: key.publicKey, nickname: nickname, npub: npub, seconds: seconds, nonce: nonce,
      signature: key.sign(unsigned.signedBytes))
  }

  package init(
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

  package static let version = "1"
}

extension VerificationCode {
  /// The text of the QR code.
  public var text: String {
    var parameters = [
      ("v", Self.version), ("noise", Hex.encode(noiseKey.bytes)), ("sign", Hex.encode(signingKey.bytes)),
      ("nick", nickname), ("ts", "\(seconds)"), ("nonce", nonce), ("sig", Hex.encode(signature)),
    ]
    if let npub { parameters.append(("npub", npub)) }
    return Self.start + parameters.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
  }

  /// Parses the text of a QR code: parameters in any order, unknown ones skipped. The caller must check `isSigned` and
  /// `isFresh`.
  ///
  /// Throws `tooLong` over 4,096 bytes; `badValue` with the name of a parameter that is missing, repeated or invalid.
  public init(reading text: String) throws(WireError) {
    let all = Array(text.utf8)
    guard all.count <= Limits.codeBytes else { throw .tooLong(field: "code", limit: Limits.codeBytes) }
    guard all.starts(with: Self.start.utf8) else { throw .badValue("code") }
    var values: [String: String] = [:]
    for parameter in all.dropFirst(Self.start.utf8.count).split(separator: UInt8(ascii: "&")) {
      guard let equals = parameter.firstIndex(of: UInt8(ascii: "=")) else { continue }
      let name = String(decoding: parameter[..<equals], as: UTF8.self)
      guard Self.names.contains(name) else { continue }
      guard let value = PercentEncoding.decode(parameter[(equals + 1)...]),
        values.updateValue(value, forKey: name) == nil
      else { throw .badValue(name) }
    }
    func value(_ name: String) throws(WireError) -> String {
      guard let value = values[name] else { throw .badValue(name) }
      return value
    }
    func bytes(_ name: String) throws(WireError) -> ArraySlice<UInt8> {
      guard let bytes = try? Hex.decode(try value(name)) else { throw .badValue(name) }
      return bytes[...]
    }
    guard try value("v") == Self.version else { throw .badValue("v") }
    let digits = try value("ts")
    // A number must be in canonical form, because its text is signed.
    guard let seconds = Int64(digits), "\(seconds)" == digits else { throw .badValue("ts") }
    let signature = try bytes("sig")
    guard signature.count == Ed25519.signatureSize else { throw .badValue("sig") }
    try self.init(
      noiseKey: Announcement.noiseKey(bytes("noise")), signingKey: Announcement.signingKey(bytes("sign")),
      nickname: value("nick"), npub: values["npub"].flatMap { $0.isEmpty ? nil : $0 }, seconds: seconds,
      nonce: value("nonce"), signature: Array(signature))
  }

  private static let start = "bitchat://verify?"
  private static let names: Set = ["v", "noise", "sign", "nick", "ts", "nonce", "sig", "npub"]
}
