import ASN
import Bytes
import Crypto
import Store

/// The keys of a user of this machine, in the format of `newuser`. Facts: asn.md section 6
///
///     pub:
///       encr: 64 digits
///       auth: 64 digits
///     sec:
///       encr: 64 digits
///       auth: 128 digits, of which the first half is the seed
///
/// The secret encryption key is not needed for a login, and may be missing.
public struct UserKeys: Sendable {
  /// Maximum length of a text with keys, in bytes.
  public static let limit = 4096
  /// The folder in the state directory with the key files of users.
  public static let folder = "keys"

  /// Makes new keys, and their text.
  public static func make(random: inout some RandomSource) -> (keys: UserKeys, text: [UInt8]) {
    let encryption = X25519.PrivateKey(randomFrom: &random)
    let authentication = Ed25519.PrivateKey(randomFrom: &random)
    let text = UserKeyText.text(encryption, authentication)
    return (UserKeys(UserKey(encryption.publicKey), authentication), text)
  }

  private init(_ user: UserKey, _ authentication: Ed25519.PrivateKey) {
    (self.user, self.authentication) = (user, authentication)
  }

  public let user: UserKey
  public let authentication: Ed25519.PrivateKey

  public struct Malformed: Error {
    public let sentence: String
  }

  public init(_ text: [UInt8]) throws(Malformed) {
    var values: [String: Substring] = [:]
    var section = ""
    guard text.count <= Self.limit, let string = String(validating: text, as: UTF8.self) else {
      throw Malformed(sentence: "A file of keys is a text of at most \(Self.limit) bytes.")
    }
    for line in string.split(whereSeparator: \.isNewline) {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let name = line[..<colon].drop { $0 == " " }
      let value = line[colon...].dropFirst().drop { $0 == " " }
      if line.first == " " { values["\(section).\(name)"] = value } else { section = String(name) }
    }
    func bytes(_ name: String, _ count: Int) throws(Malformed) -> [UInt8] {
      guard let value = values[name], let bytes = try? Hex.decode(String(value)), bytes.count == count else {
        throw Malformed(sentence: "The keys have no valid \(name): \(2 * count) hexadecimal digits.")
      }
      return bytes
    }
    var secret = try bytes("sec.auth", 64)
    defer { for index in secret.indices { secret[index] = 0 } }
    let (encryption, publicKey) = (try bytes("pub.encr", UserKey.size), try bytes("pub.auth", 32))
    do {
      user = try UserKey(encryption)
      authentication = try Ed25519.PrivateKey(copyingSeed: secret.prefix(32))
    } catch {
      throw Malformed(sentence: "The keys are not valid: \(error).")
    }
    guard authentication.publicKey.bytes == publicKey else {
      throw Malformed(sentence: "The secret and the public authentication key do not belong together.")
    }
  }

  /// Whether a key file may have this name: letters, digits, `-`, `_` and `.`, but no `.` at the beginning.
  public static func isName(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.count <= 64 && !name.hasPrefix(".")
      && name.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
          true
        default: false
        }
      }
  }
}
