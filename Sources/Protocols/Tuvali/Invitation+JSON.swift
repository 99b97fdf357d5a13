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
