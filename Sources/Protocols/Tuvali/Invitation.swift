import Bytes
import Crypto

/// What the verifier's QR code says: its name on the air and its public key.
public struct Invitation: Hashable, Sendable {
  /// How it is written. Every form is read.
  public enum Form: Hashable, Sendable {
    /// `OPENID4VP://connect?name=…&key=…`
    case uri
    /// `OPENID4VP://connect:?name=…&key=…`, as releases 0.4.1 to 0.5.1 write it.
    case uriWithColon
    /// `{"cid":"…","pk":"…"}`, as releases before 0.4.1 write it.
    case json
  }

  public let name: String
  public let key: X25519.PublicKey

  /// - Throws: TVW_CON_001 for a name that is empty or longer than the advertisement has room for.
  public init(name: String, key: X25519.PublicKey) throws(TuvaliError) {
    guard !name.isEmpty else { throw Self.invalid("It has no name.") }
    guard name.utf8.count <= Limits.nameBytes else {
      throw Self.invalid("Its name is longer than \(Limits.nameBytes) bytes.")
    }
    self.name = name
    self.key = key
  }

  /// Reads either URI spelling or the JSON form: parameters in any order, unknown ones ignored, hex in either case.
  ///
  /// - Throws: TVW_CON_001, with a sentence that says what is wrong.
  public init(reading text: String) throws(TuvaliError) {
    guard text.utf8.count <= Limits.invitationBytes else { throw Self.invalid("It is too long.") }
    let isJSON = text.utf8.first == UInt8(ascii: "{")
    let parameters = isJSON ? try Self.jsonMembers(text) : try Self.uriParameters(text)
    let (nameKey, keyKey) = isJSON ? ("cid", "pk") : ("name", "key")
    guard let name = parameters[nameKey] else { throw Self.invalid("It has no parameter \(nameKey).") }
    guard let hex = parameters[keyKey] else { throw Self.invalid("It has no parameter \(keyKey).") }
    guard let bytes = try? Hex.decode(hex), let key = try? X25519.PublicKey(bytes) else {
      throw Self.invalid("Its key is not 64 hexadecimal digits.")
    }
    try self.init(name: name, key: key)
  }

  /// Whether `text` is of the form that only 0.3 wallets and verifiers use.
  static func isJSON(_ text: String) -> Bool { text.utf8.first == UInt8(ascii: "{") }

  public func text(as form: Form) -> String {
    let hex = Hex.encode(key.bytes)
    return switch form {
    case .uri: "OPENID4VP://connect?name=\(Self.percentEncoded(name))&key=\(hex)"
    case .uriWithColon: "OPENID4VP://connect:?name=\(Self.percentEncoded(name))&key=\(hex)"
    case .json: "{\"cid\":\"\(Self.jsonEscaped(name))\",\"pk\":\"\(hex)\"}"
    }
  }

  /// Service data of the advertisement: name, underscore, the first five key bytes.
  public var advertisedServiceData: [UInt8] {
    Array(name.utf8) + [UInt8(ascii: "_")] + key.bytes.prefix(Limits.advertisedKeyBytes)
  }

  /// Service data of the scan response: the other 27 key bytes.
  public var scanResponseServiceData: [UInt8] {
    Array(key.bytes.dropFirst(Limits.advertisedKeyBytes))
  }

  // MARK: The URI

  private static func uriParameters(_ text: String) throws(TuvaliError) -> [String: String] {
    guard let query = text.firstIndex(of: "?") else { throw invalid("It has no parameters.") }
    let start = text[..<query].lowercased()
    guard start == "openid4vp://connect" || start == "openid4vp://connect:" else {
      throw invalid("It does not begin with OPENID4VP://connect?.")
    }
    var parameters: [String: String] = [:]
    for pair in text[text.index(after: query)...].split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2 else { continue }
      guard let value = percentDecoded(parts[1]) else { throw invalid("A parameter is not UTF-8.") }
      let key = String(parts[0])
      guard parameters.updateValue(value, forKey: key) == nil else { throw invalid("It has \(key) twice.") }
    }
    return parameters
  }

  /// Everything but RFC 3986's unreserved characters is encoded, so that no reader's view of "+" matters.
  private static func percentEncoded(_ text: String) -> String {
    text.utf8.reduce(into: "") { out, byte in
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        out.unicodeScalars.append(Unicode.Scalar(byte))
      default: out += "%" + Hex.encode([byte]).uppercased()
      }
    }
  }

  private static func percentDecoded(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard rest.count >= 2, let digits = String(rest.prefix(2)), let decoded = try? Hex.decode(digits) else {
        return nil
      }
      bytes += decoded
      rest = rest.dropFirst(2)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func invalid(_ why: String) -> TuvaliError {
    TuvaliError(.walletInvalidURI, .invalidArgument, "This is not a verifier's invitation. \(why)")
  }
}
