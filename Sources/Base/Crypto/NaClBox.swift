import CSodium

/// Authenticated encryption between two key pairs: the construction `crypto_box_curve25519xsalsa20poly1305` of NaCl.
///
///     tag           16, Poly1305
///     ciphertext    as long as the plaintext
///
/// Both sides compute the same key, so a nonce must be used by one side only, and by that side once.
public enum NaClBox {
  /// The number of bytes in a nonce.
  public static let nonceSize = Int(crypto_box_NONCEBYTES)
  /// Number of bytes that a sealed message is longer than its plaintext.
  public static let tagSize = Int(crypto_box_MACBYTES)

  /// The key that two key pairs share. It is computed once (`crypto_box_beforenm`) and can seal any number of messages.
  public struct Key: Sendable {
    private let shared: SecretBytes

    /// The key that `own` shares with the owner of `peer`.
    ///
    /// Throws `weakKey` if the peer's key is a low-order point. The shared key would then be known to everybody.
    public init(own: X25519.PrivateKey, peer: X25519.PublicKey) throws(CryptoError) {
      var status: Int32 = -1
      shared = SecretBytes(
        slot: Int(crypto_box_BEFORENMBYTES),
        filledBy: { shared in
          status = own.secret.withPointer { secret, _ in
            peer.withBytes { peer in
              peer.bindMemory(to: UInt8.self).baseAddress.map { crypto_box_beforenm(shared, $0, secret) } ?? -1
            }
          }
        })
      guard status == 0 else { throw .weakKey }
    }

    /// The 32 bytes of the key. They are secret.
    public func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
      shared.withUnsafeBytes(body)
    }

    /// Returns `room` zero bytes for the caller's header, the tag and the ciphertext, 16 bytes longer than the
    /// plaintext.
    ///
    /// Throws `badLength` for a nonce that is not 24 bytes long. A nonce must never be used twice with one key, in
    /// either direction.
    public func seal(
      _ plaintext: some Collection<UInt8>, nonce: [UInt8], behind room: Int = 0
    ) throws(CryptoError) -> [UInt8] {
      try checkLength(nonce.count, is: nonceSize, of: "NaCl box nonce")
      return plaintext.withPointer { plaintext, count in
        shared.withPointer { key, _ in
          [UInt8](count: room + count + tagSize) { sealed in
            sealed.update(repeating: 0, count: room)
            _ = crypto_box_easy_afternm(sealed + room, plaintext, UInt64(count), nonce, key)
          }
        }
      }
    }

    /// The plaintext of the peer's sealed message.
    ///
    /// Throws `authenticationFailed`, and reveals nothing of the plaintext, if anything was altered or is too short to
    /// contain a tag; `badLength` for a nonce that is not 24 bytes long.
    public func open(_ sealed: some Collection<UInt8>, nonce: [UInt8]) throws(CryptoError) -> [UInt8] {
      try checkLength(nonce.count, is: nonceSize, of: "NaCl box nonce")
      guard sealed.count >= tagSize else { throw .authenticationFailed }
      let plaintext = sealed.withPointer { sealed, count in
        shared.withPointer { key, _ in
          var status: Int32 = -1
          // One byte more than needed, so that an empty plaintext has an address, too.
          var plaintext = [UInt8](count: count - tagSize + 1) { plaintext in
            plaintext.update(repeating: 0, count: count - tagSize + 1)
            status = crypto_box_open_easy_afternm(plaintext, sealed, UInt64(count), nonce, key)
          }
          plaintext.removeLast()
          return status == 0 ? plaintext : nil
        }
      }
      guard let plaintext else { throw .authenticationFailed }
      return plaintext
    }
  }
}

extension NaClBox.Key: CustomStringConvertible, CustomReflectable {
  public var description: String { "<secret>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
