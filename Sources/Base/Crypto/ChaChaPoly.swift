import CSodium

/// Authenticated encryption with ChaCha20-Poly1305 (RFC 8439): 32-byte key, 12-byte nonce, 16-byte tag.
public enum ChaChaPoly {
  public static let keySize = Int(crypto_aead_chacha20poly1305_ietf_KEYBYTES)
  public static let nonceSize = Int(crypto_aead_chacha20poly1305_ietf_NPUBBYTES)
  public static let tagSize = Int(crypto_aead_chacha20poly1305_ietf_ABYTES)

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
          _ = crypto_aead_chacha20poly1305_ietf_encrypt(
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
          status = crypto_aead_chacha20poly1305_ietf_decrypt(
            plaintext, nil, nil, sealed, UInt64(count), aad, UInt64(aad.count), nonce, key)
        }
        plaintext.removeLast()
        return status == 0 ? plaintext : nil
      }
    }
    guard let plaintext else { throw .authenticationFailed }
    return plaintext
  }

  private static func check(key: SecretBytes, nonce: [UInt8]) throws(CryptoError) {
    try checkLength(key.count, is: keySize, of: "ChaCha20-Poly1305 key")
    try checkLength(nonce.count, is: nonceSize, of: "ChaCha20-Poly1305 nonce")
  }
}

extension ChaChaPoly {
  /// A key for numbered messages: the nonce is four zero bytes and the message's number, least significant byte first.
  public struct Key: Sendable {
    private let secret: SecretBytes
    private let offset: Int

    /// The 32 bytes of the secret from `offset` on. Throws `badLength` if the secret has fewer, or if the offset is
    /// negative.
    public init(_ secret: SecretBytes, at offset: Int = 0) throws(CryptoError) {
      guard offset >= 0, secret.count - offset >= keySize else {
        throw .badLength("ChaCha20-Poly1305 key", expected: keySize, got: max(0, secret.count - max(0, offset)))
      }
      self.secret = secret
      self.offset = offset
    }

    /// Returns `room` zero bytes for the caller's header, the ciphertext, as long as the plaintext, and the 16-byte
    /// tag.
    ///
    /// A number must never be used twice with one key.
    public func seal(_ plaintext: [UInt8], number: UInt64, aad: [UInt8] = [], behind room: Int = 0) -> [UInt8] {
      var nonce = Nonce(number)
      return secret.withPointer { key, _ in
        [UInt8](count: room + plaintext.count + tagSize) { sealed in
          sealed.update(repeating: 0, count: room)
          _ = nonce.withPointer { nonce in
            crypto_aead_chacha20poly1305_ietf_encrypt(
              sealed + room, nil, plaintext, UInt64(plaintext.count), aad, UInt64(aad.count), nil, nonce, key + offset)
          }
        }
      }
    }

    /// Opens the output of `seal` without the header bytes.
    ///
    /// Throws `authenticationFailed`, and reveals nothing of the plaintext, if anything was altered or is too short to
    /// hold a tag.
    public func open(
      _ sealed: ArraySlice<UInt8>, number: UInt64, aad: [UInt8] = []
    ) throws(CryptoError) -> [UInt8] {
      guard sealed.count >= tagSize else { throw .authenticationFailed }
      var nonce = Nonce(number)
      var status: Int32 = -1
      let plaintext = secret.withPointer { key, _ in
        sealed.withPointer { sealed, count in
          // One byte more than needed, so that an empty plaintext has an address, too.
          [UInt8](unsafeUninitializedCapacity: count - tagSize + 1) { plaintext, filled in
            guard let address = plaintext.baseAddress else { return }
            status = nonce.withPointer { nonce in
              crypto_aead_chacha20poly1305_ietf_decrypt(
                address, nil, nil, sealed, UInt64(count), aad, UInt64(aad.count), nonce, key + offset)
            }
            // libsodium writes zeros if the tag is wrong.
            filled = status == 0 ? count - tagSize : 0
          }
        }
      }
      guard status == 0 else { throw .authenticationFailed }
      return plaintext
    }
  }

  /// The twelve bytes of a nonce, on the stack.
  private struct Nonce {
    private var words: (UInt32, UInt32, UInt32)

    init(_ number: UInt64) {
      let (low, high) = (UInt32(truncatingIfNeeded: number), UInt32(truncatingIfNeeded: number >> 32))
      words = (0, low.littleEndian, high.littleEndian)
    }

    mutating func withPointer<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
      withUnsafePointer(to: &words) { words in
        words.withMemoryRebound(to: UInt8.self, capacity: nonceSize, body)
      }
    }
  }
}
