import CSodium

/// The stream cipher ChaCha20 with a nonce of 12 bytes and a block counter that starts at 0 (RFC 8439 section 2.4). It
/// protects no integrity: the caller authenticates the ciphertext.
public enum ChaCha20 {
  public static let keySize = Int(crypto_stream_chacha20_ietf_KEYBYTES)
  public static let nonceSize = Int(crypto_stream_chacha20_ietf_NONCEBYTES)

  /// Encrypts or decrypts the bytes: the operation is its own inverse.
  ///
  /// Throws `badLength` for a wrong key or nonce. A nonce must never be used twice with one key.
  public static func apply(
    to bytes: some Collection<UInt8>, key: SecretBytes, nonce: SecretBytes
  ) throws(CryptoError) -> [UInt8] {
    try checkLength(key.count, is: keySize, of: "ChaCha20 key")
    try checkLength(nonce.count, is: nonceSize, of: "ChaCha20 nonce")
    return bytes.withPointer { bytes, count in
      key.withPointer { key, _ in
        nonce.withPointer { nonce, _ in
          [UInt8](count: count) { output in
            _ = crypto_stream_chacha20_ietf_xor(output, bytes, UInt64(count), nonce, key)
          }
        }
      }
    }
  }
}
