import CSodium

/// Authenticated encryption with XChaCha20-Poly1305: 32-byte key, 24-byte nonce, 16-byte tag. The nonce is long enough
/// to be drawn at random for each of any number of messages (draft-irtf-cfrg-xchacha-03).
public enum XChaChaPoly {
  public static let keySize = Int(crypto_aead_xchacha20poly1305_ietf_KEYBYTES)
  public static let nonceSize = Int(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES)
  public static let tagSize = Int(crypto_aead_xchacha20poly1305_ietf_ABYTES)

  /// The ciphertext, as long as the plaintext, followed by the tag.
  ///
  /// Throws `badLength` for a wrong key or nonce. A nonce must never be used twice with one key.
  public static func seal(
    _ plaintext: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    try check(key: key, nonce: nonce)
    return plaintext.withPointer { plaintext, count in
      key.withPointer { key, _ in
        [UInt8](count: count + tagSize) { sealed in
          _ = crypto_aead_xchacha20poly1305_ietf_encrypt(
            sealed, nil, plaintext, UInt64(count), aad, UInt64(aad.count), nil, nonce, key)
        }
      }
    }
  }

  /// Opens the output of `seal`.
  ///
  /// Throws `authenticationFailed`, and reveals nothing of the plaintext, if anything was altered or is too short to
  /// hold a tag; `badLength` for a wrong key or nonce.
  public static func open(
    _ sealed: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    try check(key: key, nonce: nonce)
    guard sealed.count >= tagSize else { throw .authenticationFailed }
    let plaintext = sealed.withPointer { sealed, count in
      key.withPointer { key, _ in
        var status: Int32 = -1
        // One byte more than needed, so that an empty plaintext has an address, too.
        var plaintext = [UInt8](count: count - tagSize + 1) { plaintext in
          status = crypto_aead_xchacha20poly1305_ietf_decrypt(
            plaintext, nil, nil, sealed, UInt64(count), aad, UInt64(aad.count), nonce, key)
        }
        plaintext.removeLast()
        return status == 0 ? plaintext : nil
      }
    }
    guard let plaintext else { throw .authenticationFailed }
    return plaintext
  }

  /// A random nonce, followed by the ciphertext and the tag:
  ///
  ///     nonce       24, random
  ///     ciphertext  as long as the plaintext
  ///     tag         16
  ///
  /// Throws `badLength` for a wrong key.
  public static func sealWithNonce(
    _ plaintext: some Collection<UInt8>, key: SecretBytes, aad: [UInt8] = [],
    randomFrom random: inout some RandomSource
  ) throws(CryptoError) -> [UInt8] {
    let nonce = random.bytes(nonceSize)
    return nonce + (try seal(plaintext, key: key, nonce: nonce, aad: aad))
  }

  /// Opens the output of `sealWithNonce`.
  ///
  /// Throws `authenticationFailed` if anything was altered or is too short to hold a nonce and a tag; `badLength` for a
  /// wrong key.
  public static func openWithNonce(
    _ sealed: some Collection<UInt8>, key: SecretBytes, aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    try checkLength(key.count, is: keySize, of: "XChaCha20-Poly1305 key")
    guard sealed.count >= nonceSize + tagSize else { throw .authenticationFailed }
    return try open(sealed.dropFirst(nonceSize), key: key, nonce: Array(sealed.prefix(nonceSize)), aad: aad)
  }

  private static func check(key: SecretBytes, nonce: [UInt8]) throws(CryptoError) {
    try checkLength(key.count, is: keySize, of: "XChaCha20-Poly1305 key")
    try checkLength(nonce.count, is: nonceSize, of: "XChaCha20-Poly1305 nonce")
  }
}
