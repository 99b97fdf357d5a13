import COpenSSL

/// AES-128-CBC with PKCS#7 padding, whose key and initialisation vector come from a password: OpenSSL's
/// `EVP_BytesToKey` with MD5, without salt, in one iteration. Node.js calls it `crypto.createCipher("aes128",
/// password)`.
///
///     key  16  MD5(password)
///     IV   16  MD5(key, password)
///
/// It is for interoperation only. Equal plaintexts under one password have equal ciphertexts, nothing is
/// authenticated, and about one ciphertext of 256 opens under a wrong password, because its padding happens to be
/// right.
public enum AESCBC {
  public static let blockSize = 16

  /// The ciphertext: the plaintext with 1 to 16 bytes of padding, encrypted.
  ///
  /// Throws `badLength` for a plaintext or a password of 1 MiB or more, `unavailable` if OpenSSL has no AES or MD5.
  public static func seal(_ plaintext: some Collection<UInt8>, password: SecretBytes) throws(CryptoError) -> [UInt8] {
    try run(plaintext, password: password, encrypts: true)
  }

  /// Opens the output of `seal`.
  ///
  /// Throws `authenticationFailed` if the count is 0 or not a multiple of 16, or if the padding is wrong; `badLength`
  /// and `unavailable` like `seal`.
  public static func open(_ sealed: some Collection<UInt8>, password: SecretBytes) throws(CryptoError) -> [UInt8] {
    guard !sealed.isEmpty, sealed.count.isMultiple(of: blockSize) else { throw .authenticationFailed }
    return try run(sealed, password: password, encrypts: false)
  }

  private static let limit = 1 << 20

  private static func run(
    _ input: some Collection<UInt8>, password: SecretBytes, encrypts: Bool
  ) throws(CryptoError) -> [UInt8] {
    guard input.count < limit else { throw .badLength("AES-128-CBC text", expected: limit - 1, got: input.count) }
    guard password.count < limit else {
      throw .badLength("AES-128-CBC password", expected: limit - 1, got: password.count)
    }
    let context = try CipherContext()
    defer { context.free() }
    var keySize: Int32 = 0
    let keys = SecretBytes(
      slot: 2 * blockSize,
      filledBy: { keys in
        keySize = password.withPointer { password, count in
          EVP_BytesToKey(EVP_aes_128_cbc(), EVP_md5(), nil, password, Int32(count), 1, keys, keys + blockSize)
        }
      })
    // A provider without MD5 leaves zeros as key.
    guard keySize == Int32(blockSize) else {
      ERR_clear_error()
      throw .unavailable("AES-128-CBC with a key by MD5")
    }
    var written: Int32 = 0
    var last: Int32 = 0
    var isReady = false
    var isRight = false
    var output = input.withPointer { input, count in
      keys.withPointer { keys, _ in
        [UInt8](count: count + blockSize) { output in
          isReady =
            EVP_CipherInit_ex2(context.pointer, EVP_aes_128_cbc(), keys, keys + blockSize, encrypts ? 1 : 0, nil) == 1
            && EVP_CipherUpdate(context.pointer, output, &written, input, Int32(count)) == 1
          isRight = isReady && EVP_CipherFinal_ex(context.pointer, output + Int(written), &last) == 1
        }
      }
    }
    guard isRight else {
      ERR_clear_error()
      output.wipe()
      throw isReady && !encrypts ? .authenticationFailed : .unavailable("AES-128-CBC")
    }
    output.removeLast(output.count - Int(written + last))
    return output
  }
}
