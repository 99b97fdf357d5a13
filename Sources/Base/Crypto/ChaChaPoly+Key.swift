import CSodium

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
