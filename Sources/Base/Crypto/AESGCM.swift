import COpenSSL

/// Authenticated encryption with AES-256-GCM (NIST SP 800-38D): 32-byte key, 12-byte nonce, 16-byte tag.
public enum AESGCM {
  public static let keySize = 32
  public static let nonceSize = 12
  public static let tagSize = 16

  /// The ciphertext, as long as the plaintext, with the tag behind it.
  ///
  /// Throws `badLength` for a wrong key or nonce, or for a plaintext of 2 GiB or more. A nonce must never be used twice
  /// with one key.
  public static func seal(
    _ plaintext: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    let cipher = try cipher(for: key, nonce, aad)
    let size = try size(plaintext.count, of: "AES-256-GCM plaintext")
    let context = try Context()
    defer { context.free() }
    var written: Int32 = 0
    var done = false
    let sealed = plaintext.withPointer { plaintext, count in
      key.withPointer { key, _ in
        [UInt8](count: count + tagSize) { sealed in
          done =
            EVP_EncryptInit_ex2(context.pointer, cipher, key, nonce, nil) == 1
            && (aad.isEmpty || EVP_EncryptUpdate(context.pointer, nil, &written, aad, Int32(aad.count)) == 1)
            && (size == 0 || EVP_EncryptUpdate(context.pointer, sealed, &written, plaintext, size) == 1)
            && EVP_EncryptFinal_ex(context.pointer, sealed + count, &written) == 1
            && EVP_CIPHER_CTX_ctrl(
              context.pointer, EVP_CTRL_AEAD_GET_TAG, Int32(tagSize), sealed + count) == 1
        }
      }
    }
    guard done else { throw refused(.unavailable("AES-256-GCM")) }
    return sealed
  }

  /// The plaintext of what `seal` returned.
  ///
  /// Throws `authenticationFailed`, and reveals nothing of the plaintext, if anything was altered or is too short to
  /// hold a tag; `badLength` for a wrong key or nonce, or for 2 GiB or more.
  public static func open(
    _ sealed: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    let cipher = try cipher(for: key, nonce, aad)
    guard sealed.count >= tagSize else { throw .authenticationFailed }
    let size = try size(sealed.count - tagSize, of: "AES-256-GCM ciphertext")
    let context = try Context()
    defer { context.free() }
    var tag = Array(sealed.suffix(tagSize))
    var written: Int32 = 0
    var decrypted = false
    var genuine = false
    // One byte more than needed, so that an empty plaintext has an address too.
    var plaintext = sealed.withPointer { sealed, count in
      key.withPointer { key, _ in
        [UInt8](count: Int(size) + 1) { plaintext in
          decrypted =
            EVP_DecryptInit_ex2(context.pointer, cipher, key, nonce, nil) == 1
            && (aad.isEmpty || EVP_DecryptUpdate(context.pointer, nil, &written, aad, Int32(aad.count)) == 1)
            && (size == 0 || EVP_DecryptUpdate(context.pointer, plaintext, &written, sealed, size) == 1)
            && EVP_CIPHER_CTX_ctrl(context.pointer, EVP_CTRL_AEAD_SET_TAG, Int32(tagSize), &tag) == 1
          genuine = decrypted && EVP_DecryptFinal_ex(context.pointer, plaintext + Int(size), &written) == 1
        }
      }
    }
    guard genuine else {
      plaintext.wipe()
      throw refused(decrypted ? .authenticationFailed : .unavailable("AES-256-GCM"))
    }
    plaintext.removeLast()
    return plaintext
  }

  private static func cipher(for key: SecretBytes, _ nonce: [UInt8], _ aad: [UInt8]) throws(CryptoError)
    -> OpaquePointer
  {
    try checkLength(key.count, is: keySize, of: "AES-256-GCM key")
    try checkLength(nonce.count, is: nonceSize, of: "AES-256-GCM nonce")
    _ = try size(aad.count, of: "AES-256-GCM additional data")
    guard let pointer = Cipher.shared.pointer else { throw refused(.unavailable("AES-256-GCM")) }
    return pointer
  }

  /// The count as OpenSSL takes it, which leaves room for a tag behind it.
  private static func size(_ count: Int, of name: String) throws(CryptoError) -> Int32 {
    let limit = Int(Int32.max) - tagSize
    guard count <= limit else { throw .badLength(name, expected: limit, got: count) }
    return Int32(count)
  }

  /// The error, with OpenSSL's own list of errors emptied: other users of OpenSSL shall not find our errors in it.
  private static func refused(_ error: CryptoError) -> CryptoError {
    ERR_clear_error()
    return error
  }
}

/// The cipher that OpenSSL's providers offer, fetched once and kept for the life of the process. Threads only read it.
private struct Cipher: @unchecked Sendable {
  // No thread owns the cipher: OpenSSL never changes one that was fetched.
  let pointer: OpaquePointer?

  static let shared = Cipher(pointer: EVP_CIPHER_fetch(nil, "AES-256-GCM", nil))
}

/// The state of one encryption; `free` overwrites the key schedule in it.
private struct Context {
  let pointer: OpaquePointer

  init() throws(CryptoError) {
    guard let pointer = EVP_CIPHER_CTX_new() else { throw .unavailable("a cipher context") }
    self.pointer = pointer
  }

  func free() {
    EVP_CIPHER_CTX_free(pointer)
  }
}
