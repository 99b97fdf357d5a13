import CSodium

/// Key derivation from an agreed secret (RFC 5869).
public enum HKDF {
  /// The longest output: 255 hashes.
  public static let maximumCount = 255 * HMACSHA256.size

  /// The `count` bytes that follow from the secret, the salt and the purpose. An empty salt counts as 32 zeros, as the RFC
  /// has it.
  ///
  /// Throws `badLength` if `count` is negative or more than 8160.
  public static func sha256(
    secret: SecretBytes, salt: [UInt8], info: [UInt8], count: Int
  ) throws(CryptoError) -> SecretBytes {
    guard (0...maximumCount).contains(count) else {
      throw .badLength("HKDF output", expected: maximumCount, got: count)
    }
    let size = HMACSHA256.size
    let pseudorandomKey = SecretBytes(
      count: size,
      filledBy: { key in
        var running = HMACSHA256.Running(key: salt, salt.count)
        secret.withUnsafeBytes { running.update($0) }
        running.finish(to: key)
      })
    let blocks = (count + size - 1) / size
    let output = SecretBytes(
      count: blocks * size,
      filledBy: { output in
        pseudorandomKey.withPointer { key, keyCount in
          for block in 0..<blocks {
            var running = HMACSHA256.Running(key: key, keyCount)
            if block > 0 { running.update(UnsafeBufferPointer(start: output + (block - 1) * size, count: size)) }
            running.update(info)
            running.update([UInt8(block + 1)])
            running.finish(to: output + block * size)
          }
        }
      })
    guard output.count > count else { return output }
    return output.withUnsafeBytes { SecretBytes(copying: $0.prefix(count)) }
  }

  /// The `count` bytes that follow from a secret in ordinary memory.
  public static func sha256(
    secret: [UInt8], salt: [UInt8], info: [UInt8], count: Int
  ) throws(CryptoError) -> SecretBytes {
    try sha256(secret: SecretBytes(copying: secret), salt: salt, info: info, count: count)
  }
}
