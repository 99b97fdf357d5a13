import Bytes
import Crypto

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
