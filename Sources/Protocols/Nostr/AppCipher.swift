import Bytes
import Crypto

/// The encryption that the phone apps use in envelopes. It resembles NIP-44, but is incompatible with it. Facts:
/// bitchat.md section 11.
///
///     text   "v2:" and base64url, without padding, of:
///     nonce       24
///     ciphertext  …   XChaCha20-Poly1305, as long as the text
///     tag         16
///
/// The key is HKDF-SHA256 of the shared point in compressed form (33 bytes), with an empty salt and the purpose
/// "nip44-v2". The text is not padded.
enum AppCipher {
  static let mark = "v2:"

  /// Encrypts a text for the owner of `recipient`.
  ///
  /// - Parameter nonce: 24 bytes, used once.
  static func seal(
    _ text: [UInt8], from key: Secp256k1.PrivateKey, to recipient: NostrKey, nonce: [UInt8]
  ) throws(CryptoError) -> String {
    let messageKey = try messageKey(try key.sharedPoint(with: recipient))
    return mark + Base64URL.encode(nonce + (try XChaChaPoly.seal(text, key: messageKey, nonce: nonce)))
  }

  /// Decrypts a text that the owner of the key `sender` encrypted. An X coordinate stands for two points, and the
  /// sender may have used either, so both are tried.
  ///
  /// - Returns: nil for a text of another form, or one that was changed or is for another key.
  static func open(
    _ text: String, from sender: NostrKey, with key: Secp256k1.PrivateKey
  ) throws(CryptoError) -> [UInt8]? {
    guard text.utf8.starts(with: mark.utf8), let bytes = try? Base64URL.decode(text.dropFirst(mark.count)),
      bytes.count > XChaChaPoly.nonceSize + XChaChaPoly.tagSize
    else { return nil }
    let point = try key.sharedPoint(with: sender)
    for candidate in [point, negated(point)] {
      do throws(CryptoError) {
        return try XChaChaPoly.openWithNonce(bytes, key: try messageKey(candidate))
      } catch .authenticationFailed {
        continue
      }
    }
    return nil
  }

  static func messageKey(_ point: SecretBytes) throws(CryptoError) -> SecretBytes {
    try HKDF.sha256(secret: point, salt: [], info: Array("nip44-v2".utf8), count: XChaChaPoly.keySize)
  }

  /// The negative of a point in compressed form: the X coordinate is the same, and the first byte changes between 02
  /// and 03.
  private static func negated(_ point: SecretBytes) -> SecretBytes {
    SecretBytes(count: point.count) { (copy: UnsafeMutableRawBufferPointer) in
      point.withUnsafeBytes { copy.copyMemory(from: $0) }
      if !copy.isEmpty { copy[0] ^= 0x01 }
    }
  }
}
