import Bytes
import Crypto

/// Content of the verifier's QR code: advertised name and public key. Facts: tuvali.md sections 1 and 2.
public struct Invitation: Hashable, Sendable {
  /// Written form of an invitation. All forms are read.
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

  /// - Throws: TVW_CON_001 for a name that is empty or too long for the advertisement.
  public init(name: String, key: X25519.PublicKey) throws(TuvaliError) {
    guard !name.isEmpty else { throw Self.invalid("It has no name.") }
    guard name.utf8.count <= Limits.nameBytes else {
      throw Self.invalid("Its name is longer than \(Limits.nameBytes) bytes.")
    }
    self.name = name
    self.key = key
  }

  /// Parses either URI spelling or the JSON form. Scheme and hex digits may have either case; parameters may be in any
  /// order, and unknown ones are ignored.
  ///
  /// - Throws: TVW_CON_001, with a sentence about the problem.
  public init(reading text: String) throws(TuvaliError) {
    guard text.utf8.count <= Limits.invitationBytes else {
      throw Self.invalid("It is longer than \(Limits.invitationBytes) bytes.")
    }
    let isJSON = Self.isJSON(text)
    let parameters = isJSON ? try Self.jsonMembers(text) : try Self.uriParameters(text)
    let (nameKey, keyKey) = isJSON ? ("cid", "pk") : ("name", "key")
    guard let name = parameters[nameKey] else { throw Self.invalid("It has no parameter \(nameKey).") }
    guard let hex = parameters[keyKey] else { throw Self.invalid("It has no parameter \(keyKey).") }
    guard let bytes = try? Hex.decode(hex), let key = try? X25519.PublicKey(bytes) else {
      throw Self.invalid("Its key is not 64 hexadecimal digits.")
    }
    try self.init(name: name, key: key)
  }

  /// Whether `text` has the form that releases up to 0.4.0 use.
  static func isJSON(_ text: String) -> Bool { text.utf8.first == UInt8(ascii: "{") }

  /// Writes the invitation as the text of a QR code in `form`.
  public func text(as form: Form) -> String {
    let hex = Hex.encode(key.bytes)
    return switch form {
    case .uri: "OPENID4VP://connect?name=\(PercentEncoding.encode(name))&key=\(hex)"
    case .uriWithColon: "OPENID4VP://connect:?name=\(PercentEncoding.encode(name))&key=\(hex)"
    case .json: "{\"cid\":\"\(Self.jsonEscaped(name))\",\"pk\":\"\(hex)\"}"
    }
  }

  /// Service data of the advertisement: name, underscore, the first five key bytes.
  public var advertisedServiceData: [UInt8] {
    Array(name.utf8) + [UInt8(ascii: "_")] + key.bytes.prefix(Limits.advertisedKeyBytes)
  }

  /// Service data of the scan response: the remaining 27 bytes of the key.
  public var scanResponseServiceData: [UInt8] {
    Array(key.bytes.dropFirst(Limits.advertisedKeyBytes))
  }

  // MARK: The URI

  /// Parses the values of `name` and `key`; other parameters are ignored.
  private static func uriParameters(_ text: String) throws(TuvaliError) -> [String: String] {
    // Parses bytes: with characters, a combining mark could hide a separator.
    let bytes = Array(text.utf8)
    guard let query = bytes.firstIndex(of: UInt8(ascii: "?")) else { throw invalid("It has no parameters.") }
    let start = String(decoding: bytes[..<query], as: UTF8.self).lowercased()
    guard start == "openid4vp://connect" || start == "openid4vp://connect:" else {
      throw invalid("It does not begin with OPENID4VP://connect?.")
    }
    var parameters: [String: String] = [:]
    for parameter in bytes[(query + 1)...].split(separator: UInt8(ascii: "&")) {
      guard let equals = parameter.firstIndex(of: UInt8(ascii: "=")) else { continue }
      let key = String(decoding: parameter[..<equals], as: UTF8.self)
      guard key == "name" || key == "key" else { continue }
      // "+" is not decoded, as in iOS. Android reads it as a space, and no known verifier writes it.
      guard let value = PercentEncoding.decode(parameter[(equals + 1)...]) else {
        throw invalid("Its \(key) is not UTF-8.")
      }
      guard parameters.updateValue(value, forKey: key) == nil else { throw invalid("It has \(key) twice.") }
    }
    return parameters
  }

  private static func invalid(_ why: String) -> TuvaliError {
    TuvaliError(.walletInvalidURI, .invalidArgument, "This is not a verifier's invitation. \(why)")
  }
}

/// QR code of dialect 0.3: a flat JSON object of strings.
extension Invitation {
  /// Parses the members of the object.
  ///
  /// - Throws: TVW_CON_001 for anything but a flat object of strings, and for a repeated key.
  static func jsonMembers(_ text: String) throws(TuvaliError) -> [String: String] {
    var scanner = Scanner(text)
    guard let members = scanner.object() else {
      throw TuvaliError(
        .walletInvalidURI, .invalidArgument,
        "This is not a verifier's invitation. It begins like JSON and is not a flat object of strings.")
    }
    return members
  }

  static func jsonEscaped(_ text: String) -> String {
    text.unicodeScalars.reduce(into: "") { out, scalar in
      switch scalar {
      case "\"", "\\": out += "\\" + String(scalar)
      case ..<" ":
        let digits = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
  }

  private struct Scanner {
    private var unread: Substring.UnicodeScalarView

    init(_ text: String) {
      unread = Substring(text).unicodeScalars
    }

    mutating func object() -> [String: String]? {
      var members: [String: String] = [:]
      guard take("{") else { return nil }
      if take("}") { return atEnd ? members : nil }
      repeat {
        guard let key = string(), take(":"), let value = string(), members.updateValue(value, forKey: key) == nil
        else { return nil }
      } while take(",")
      return take("}") && atEnd ? members : nil
    }

    private var atEnd: Bool {
      mutating get {
        skipSpace()
        return unread.isEmpty
      }
    }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
      skipSpace()
      guard unread.first == scalar else { return false }
      unread.removeFirst()
      return true
    }

    private mutating func skipSpace() {
      while let first = unread.first, [" ", "\t", "\n", "\r"].contains(first) { unread.removeFirst() }
    }

    private mutating func string() -> String? {
      guard take("\"") else { return nil }
      var out = ""
      while let scalar = unread.popFirst() {
        switch scalar {
        case "\"": return out
        case "\\":
          guard let escaped = escape() else { return nil }
          out.unicodeScalars.append(escaped)
        case ..<" ": return nil
        default: out.unicodeScalars.append(scalar)
        }
      }
      return nil
    }

    /// Parses the character of an escape, after its backslash. Rejects surrogate pairs: no known name needs them.
    private mutating func escape() -> Unicode.Scalar? {
      guard let scalar = unread.popFirst() else { return nil }
      switch scalar {
      case "\"", "\\", "/": return scalar
      case "n": return "\n"
      case "t": return "\t"
      case "r": return "\r"
      case "b": return "\u{8}"
      case "f": return "\u{C}"
      case "u":
        let digits = unread.prefix(4)
        // Checks each digit, because `UInt32.init` also accepts a sign.
        guard digits.count == 4, digits.allSatisfy(\.properties.isASCIIHexDigit),
          let value = UInt32(String(digits), radix: 16)
        else { return nil }
        unread.removeFirst(4)
        return Unicode.Scalar(value)
      default: return nil
      }
    }
  }
}
