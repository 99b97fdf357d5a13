import COpenSSL

/// Authenticated encryption with AES-256-GCM (NIST SP 800-38D): 32-byte key, 12-byte nonce, 16-byte tag.
public enum AESGCM {
  public static let keySize = 32
  public static let nonceSize = 12
  public static let tagSize = GCM.tagSize

  private static let cipher = GCM(name: "AES-256-GCM", keySize: keySize, nonceSize: nonceSize)

  /// The ciphertext, as long as the plaintext, followed by the tag.
  ///
  /// Throws `badLength` for a wrong key or nonce, or for a plaintext of 2 GiB or more. A nonce must never be used twice
  /// with one key.
  public static func seal(
    _ plaintext: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    try cipher.seal(plaintext, key: key, nonce: nonce, aad: aad)
  }

  /// Opens the output of `seal`.
  ///
  /// Throws `authenticationFailed`, and reveals nothing of the plaintext, if anything was altered or is too short to
  /// hold a tag. Throws `badLength` for a wrong key or nonce, or for 2 GiB or more.
  public static func open(
    _ sealed: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    try cipher.open(sealed, key: key, nonce: nonce, aad: aad)
  }
}

/// Authenticated encryption with AES-128-GCM (NIST SP 800-38D): 16-byte key, 16-byte nonce, 16-byte tag.
///
/// With a nonce of 16 bytes, GCM derives the first counter block from GHASH of the nonce (section 7.1, step 2).
public enum AES128GCM {
  public static let keySize = 16
  public static let nonceSize = 16
  public static let tagSize = GCM.tagSize

  private static let cipher = GCM(name: "AES-128-GCM", keySize: keySize, nonceSize: nonceSize)

  /// The ciphertext, as long as the plaintext, followed by the tag. Throws like `AESGCM.seal`.
  public static func seal(
    _ plaintext: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    try cipher.seal(plaintext, key: key, nonce: nonce, aad: aad)
  }

  /// Opens the output of `seal`. Throws like `AESGCM.open`.
  public static func open(
    _ sealed: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8] = []
  ) throws(CryptoError) -> [UInt8] {
    try cipher.open(sealed, key: key, nonce: nonce, aad: aad)
  }
}

/// AES-GCM with one size of key and one size of nonce. The cipher of OpenSSL's provider is fetched once and reused
/// until the process ends.
struct GCM: @unchecked Sendable {
  static let tagSize = 16

  private let name: String
  private let keySize: Int
  private let nonceSize: Int
  // The cipher does not belong to one thread: OpenSSL never changes a fetched cipher.
  private let fetched: OpaquePointer?

  fileprivate init(name: String, keySize: Int, nonceSize: Int) {
    (self.name, self.keySize, self.nonceSize) = (name, keySize, nonceSize)
    fetched = EVP_CIPHER_fetch(nil, name, nil)
  }

  /// Implements `AESGCM.seal` with the given cipher of OpenSSL.
  func seal(
    _ plaintext: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8]
  ) throws(CryptoError) -> [UInt8] {
    let cipher = try cipher(for: key, nonce, aad)
    let size = try size(plaintext.count, of: "\(name) plaintext")
    let context = try CipherContext()
    defer { context.free() }
    var written: Int32 = 0
    var done = false
    let sealed = plaintext.withPointer { plaintext, count in
      key.withPointer { key, _ in
        [UInt8](count: count + Self.tagSize) { sealed in
          done =
            EVP_EncryptInit_ex2(context.pointer, cipher, nil, nil, nil) == 1
            && EVP_CIPHER_CTX_ctrl(context.pointer, EVP_CTRL_AEAD_SET_IVLEN, Int32(nonceSize), nil) == 1
            && EVP_EncryptInit_ex2(context.pointer, nil, key, nonce, nil) == 1
            && (aad.isEmpty || EVP_EncryptUpdate(context.pointer, nil, &written, aad, Int32(aad.count)) == 1)
            && (size == 0 || EVP_EncryptUpdate(context.pointer, sealed, &written, plaintext, size) == 1)
            && EVP_EncryptFinal_ex(context.pointer, sealed + count, &written) == 1
            && EVP_CIPHER_CTX_ctrl(
              context.pointer, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagSize), sealed + count) == 1
        }
      }
    }
    guard done else { throw refused(.unavailable(name)) }
    return sealed
  }

  /// Implements `AESGCM.open` with the given cipher of OpenSSL.
  func open(
    _ sealed: some Collection<UInt8>, key: SecretBytes, nonce: [UInt8], aad: [UInt8]
  ) throws(CryptoError) -> [UInt8] {
    let cipher = try cipher(for: key, nonce, aad)
    guard sealed.count >= Self.tagSize else { throw .authenticationFailed }
    let size = try size(sealed.count - Self.tagSize, of: "\(name) ciphertext")
    let context = try CipherContext()
    defer { context.free() }
    var tag = Array(sealed.suffix(Self.tagSize))
    var written: Int32 = 0
    var decrypted = false
    var genuine = false
    // One byte more than needed, so that an empty plaintext has an address, too.
    var plaintext = sealed.withPointer { sealed, count in
      key.withPointer { key, _ in
        [UInt8](count: Int(size) + 1) { plaintext in
          decrypted =
            EVP_DecryptInit_ex2(context.pointer, cipher, nil, nil, nil) == 1
            && EVP_CIPHER_CTX_ctrl(context.pointer, EVP_CTRL_AEAD_SET_IVLEN, Int32(nonceSize), nil) == 1
            && EVP_DecryptInit_ex2(context.pointer, nil, key, nonce, nil) == 1
            && (aad.isEmpty || EVP_DecryptUpdate(context.pointer, nil, &written, aad, Int32(aad.count)) == 1)
            && (size == 0 || EVP_DecryptUpdate(context.pointer, plaintext, &written, sealed, size) == 1)
            && EVP_CIPHER_CTX_ctrl(context.pointer, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagSize), &tag) == 1
          genuine = decrypted && EVP_DecryptFinal_ex(context.pointer, plaintext + Int(size), &written) == 1
        }
      }
    }
    guard genuine else {
      plaintext.wipe()
      throw refused(decrypted ? .authenticationFailed : .unavailable(name))
    }
    plaintext.removeLast()
    return plaintext
  }

  private func cipher(
    for key: SecretBytes, _ nonce: [UInt8], _ aad: [UInt8]
  ) throws(CryptoError) -> OpaquePointer {
    try checkLength(key.count, is: keySize, of: "\(name) key")
    try checkLength(nonce.count, is: nonceSize, of: "\(name) nonce")
    _ = try size(aad.count, of: "\(name) additional data")
    guard let fetched else { throw refused(.unavailable(name)) }
    return fetched
  }

  /// The count as OpenSSL's `Int32`. The limit leaves 16 bytes for a tag.
  private func size(_ count: Int, of name: @autoclosure () -> String) throws(CryptoError) -> Int32 {
    let limit = Int(Int32.max) - Self.tagSize
    guard count <= limit else { throw .badLength(name(), expected: limit, got: count) }
    return Int32(count)
  }

  /// Clears OpenSSL's error queue and returns `error`: other users of OpenSSL must not find our errors.
  private func refused(_ error: CryptoError) -> CryptoError {
    ERR_clear_error()
    return error
  }
}

/// The state of one encryption; `free` overwrites the key schedule in it.
struct CipherContext {
  let pointer: OpaquePointer

  init() throws(CryptoError) {
    guard let pointer = EVP_CIPHER_CTX_new() else { throw .unavailable("a cipher context") }
    self.pointer = pointer
  }

  func free() {
    EVP_CIPHER_CTX_free(pointer)
  }
}
