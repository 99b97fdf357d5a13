import Bytes
import Crypto

/// The keys of a user in the format of `newuser`. Facts: asn.md section 6
///
///     pub:
///       encr: 64 digits
///       auth: 64 digits
///     sec:
///       encr: 64 digits
///       auth: 128 digits: the seed and the public key
public enum UserKeyText {
  public static func text(_ encryption: X25519.PrivateKey, _ authentication: Ed25519.PrivateKey) -> [UInt8] {
    let (first, second) = secrets(encryption, authentication)
    let text =
      "pub:\n  encr: \(Hex.encode(encryption.publicKey.bytes))\n"
      + "  auth: \(Hex.encode(authentication.publicKey.bytes))\n"
      + "sec:\n  encr: \(Hex.encode(first))\n  auth: \(Hex.encode(second))\n"
    return Array(text.utf8)
  }

  /// Encodes 160 octets: the two secrets, of 32 and 64 octets, and the two public keys, of 32 each.
  public static func binary(_ encryption: X25519.PrivateKey, _ authentication: Ed25519.PrivateKey) -> [UInt8] {
    let (first, second) = secrets(encryption, authentication)
    return first + second + encryption.publicKey.bytes + authentication.publicKey.bytes
  }

  private static func secrets(
    _ encryption: X25519.PrivateKey, _ authentication: Ed25519.PrivateKey
  ) -> ([UInt8], [UInt8]) {
    encryption.secret.withUnsafeBytes { encryption in
      authentication.seed.withUnsafeBytes { (Array(encryption), Array($0) + authentication.publicKey.bytes) }
    }
  }
}
