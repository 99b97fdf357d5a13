import Bytes
import Crypto

/// Encryption for one peer by NIP-44, version 2. Other Nostr clients use it; the apps do not.
///
///     payload  base64 with padding of:
///     version     1   02
///     nonce      32
///     ciphertext  …   ChaCha20 of the length (2, big endian), the text, and zeros up to a padded length
///     code       32   HMAC-SHA256 of the nonce and the ciphertext
///
/// The conversation key is HKDF-extract of the shared X coordinate with the salt "nip44-v2". HKDF-expand of it, with
/// the nonce as purpose, gives 76 bytes: the key and the nonce of ChaCha20, and the key of the code.
public enum NIP44 {
  /// Maximum length of a text, in bytes.
  public static let limit = 65_535
  static let nonceSize = 32
  private static let version: UInt8 = 0x02

  /// The key that both peers derive. It stays the same for all their messages.
  public static func conversationKey(
    _ key: Secp256k1.PrivateKey, _ peer: NostrKey
  ) throws(CryptoError) -> SecretBytes {
    HKDF.extract(secret: try key.sharedX(with: try peer.evenPoint()), salt: Array("nip44-v2".utf8))
  }

  /// Encrypts a text of 1 to 65,535 bytes.
  ///
  /// - Parameter nonce: 32 random bytes, used once.
  /// - Throws: `badLength` for another length of the text, the key or the nonce.
  public static func seal(
    _ text: [UInt8], key: SecretBytes, nonce: [UInt8]
  ) throws(CryptoError) -> String {
    guard (1...limit).contains(text.count) else {
      throw .badLength("text", expected: limit, got: text.count)
    }
    guard nonce.count == nonceSize else { throw .badLength("nonce", expected: nonceSize, got: nonce.count) }
    let keys = try MessageKeys(key, nonce)
    var writer = ByteWriter(capacity: 2 + paddedLength(text.count))
    writer.u16be(UInt16(clamping: text.count))
    writer.append(text)
    writer.append([UInt8](repeating: 0, count: paddedLength(text.count) - text.count))
    let ciphertext = try ChaCha20.apply(to: writer.bytes, key: keys.cipher, nonce: keys.nonce)
    let code = HMACSHA256.authenticationCode(for: nonce + ciphertext, key: keys.code)
    return Base64.encode([version] + nonce + ciphertext + code)
  }

  /// Decrypts a payload. Nil for another version or form, a wrong code, or wrong padding.
  public static func open(_ payload: String, key: SecretBytes) throws(CryptoError) -> [UInt8]? {
    // The limits of NIP-44, in characters of base64.
    guard (132...87_472).contains(payload.utf8.count), let bytes = try? Base64.decode(payload),
      (99...65_603).contains(bytes.count), bytes[0] == version
    else { return nil }
    let nonce = Array(bytes[1..<1 + nonceSize])
    let ciphertext = bytes[(1 + nonceSize)..<(bytes.count - HMACSHA256.size)]
    let keys = try MessageKeys(key, nonce)
    guard HMACSHA256.verify(bytes.suffix(HMACSHA256.size), for: nonce + ciphertext, key: keys.code) else { return nil }
    let padded = try ChaCha20.apply(to: ciphertext, key: keys.cipher, nonce: keys.nonce)
    let length = Int(padded[0]) << 8 | Int(padded[1])
    guard length > 0, padded.count == 2 + paddedLength(length), padded.dropFirst(2 + length).allSatisfy({ $0 == 0 })
    else { return nil }
    return Array(padded[2..<2 + length])
  }

  /// The length of a text with its padding: 32 at least, then in steps of an eighth of the next power of two.
  static func paddedLength(_ length: Int) -> Int {
    guard length > 32 else { return 32 }
    let power = 1 << (Int.bitWidth - (length - 1).leadingZeroBitCount)
    let step = power <= 256 ? 32 : power / 8
    return step * ((length - 1) / step + 1)
  }

  private struct MessageKeys {
    let cipher: SecretBytes
    let nonce: SecretBytes
    let code: SecretBytes

    init(_ key: SecretBytes, _ nonce: [UInt8]) throws(CryptoError) {
      guard key.count == 32 else { throw .badLength("conversation key", expected: 32, got: key.count) }
      let keys = try HKDF.expand(key: key, info: nonce, count: 76)
      cipher = try keys.shortLivedCopy(of: 0..<32)
      self.nonce = try keys.shortLivedCopy(of: 32..<44)
      code = try keys.shortLivedCopy(of: 44..<76)
    }
  }
}
