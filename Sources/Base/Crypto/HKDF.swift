import CSodium

/// Key derivation from an agreed secret (RFC 5869).
public enum HKDF {
  /// The longest output, in bytes: 255 hashes.
  public static let maximumCount = 255 * HMACSHA256.size

  /// Derives `count` bytes from the secret, the salt and the purpose (`info`). An empty salt is replaced by 32 zeros
  /// (RFC 5869 section 2.2).
  ///
  /// Throws `badLength` if `count` is negative or more than 8160.
  public static func sha256(
    secret: SecretBytes, salt: [UInt8], info: [UInt8], count: Int
  ) throws(CryptoError) -> SecretBytes {
    try expand(key: extract(secret: secret, salt: salt), info: info, count: count)
  }

  /// The first step of a derivation (RFC 5869 section 2.2): a pseudorandom key of 32 bytes. An empty salt is replaced
  /// by 32 zeros.
  public static func extract(secret: SecretBytes, salt: [UInt8]) -> SecretBytes {
    SecretBytes(
      count: HMACSHA256.size,
      filledBy: { key in
        var running = salt.withPointer { HMACSHA256.Running(key: $0, $1) }
        secret.withUnsafeBytes { running.update($0) }
        running.finish(to: key)
      })
  }

  /// The second step of a derivation (RFC 5869 section 2.3): `count` bytes from a pseudorandom key and the purpose.
  ///
  /// Throws `badLength` if `count` is negative or more than 8160.
  public static func expand(
    key pseudorandomKey: SecretBytes, info: [UInt8], count: Int
  ) throws(CryptoError) -> SecretBytes {
    guard (0...maximumCount).contains(count) else {
      throw .badLength("HKDF output", expected: maximumCount, got: count)
    }
    let size = HMACSHA256.size
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

  /// Derives the next two keys of a chain: 64 bytes from `secret`, with the first 32 bytes of `chainingKey` as salt and
  /// an empty purpose. The first 32 bytes are the next chaining key, the last 32 a cipher key.
  ///
  /// Throws `badLength` for a chaining key of less than 32 bytes.
  public static func nextKeys(secret: [UInt8], chainingKey: SecretBytes) throws(CryptoError) -> SecretBytes {
    let keys = secret.withUnsafeBufferPointer { Self.nextKeys(secret: $0, chainingKey: chainingKey) }
    guard let keys else { throw .badLength("chaining key", expected: HMACSHA256.size, got: chainingKey.count) }
    return keys
  }

  /// Derives the next two keys from a secret at any address; nil for a chaining key of less than 32 bytes.
  static func nextKeys(secret: UnsafeBufferPointer<UInt8>, chainingKey: SecretBytes) -> SecretBytes? {
    let size = HMACSHA256.size
    guard chainingKey.count >= size else { return nil }
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: size) { pseudorandom in
      guard let key = pseudorandom.baseAddress else { return nil }
      defer { sodium_memzero(key, size) }
      var extracting = chainingKey.withPointer { salt, _ in HMACSHA256.Running(key: salt, size) }
      extracting.update(secret)
      extracting.finish(to: key)
      return SecretBytes(
        slot: 2 * size,
        filledBy: { output in
          var first = HMACSHA256.Running(key: key, size)
          first.update(CollectionOfOne(1))
          first.finish(to: output)
          var second = HMACSHA256.Running(key: key, size)
          second.update(UnsafeBufferPointer(start: output, count: size))
          second.update(CollectionOfOne(2))
          second.finish(to: output + size)
        })
    }
  }

  /// Derives at most 64 bytes for one exchange, like `sha256(secret:salt:info:count:)` with an empty purpose. The
  /// result is in a slot of shared pages (`SecretSlots`), which needs no system call.
  ///
  /// Throws `badLength` if `count` is negative or more than 64.
  public static func shortLived(
    secret: some Collection<UInt8>, salt: some Collection<UInt8>, count: Int
  ) throws(CryptoError) -> SecretBytes {
    let size = HMACSHA256.size
    guard (0...2 * size).contains(count) else { throw .badLength("HKDF output", expected: 2 * size, got: count) }
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 3 * size) { memory in
      guard let key = memory.baseAddress else { preconditionFailure("a key without memory") }
      defer { sodium_memzero(key, 3 * size) }
      var extracting = salt.withPointer { HMACSHA256.Running(key: $0, $1) }
      extracting.update(secret)
      extracting.finish(to: key)
      let output = key + size
      var first = HMACSHA256.Running(key: key, size)
      first.update(CollectionOfOne(1))
      first.finish(to: output)
      if count > size {
        var second = HMACSHA256.Running(key: key, size)
        second.update(UnsafeBufferPointer(start: output, count: size))
        second.update(CollectionOfOne(2))
        second.finish(to: output + size)
      }
      return SecretBytes(slot: count, filledBy: { $0.update(from: output, count: count) })
    }
  }

  /// Derives `count` bytes from a secret in ordinary memory.
  public static func sha256(
    secret: [UInt8], salt: [UInt8], info: [UInt8], count: Int
  ) throws(CryptoError) -> SecretBytes {
    try sha256(secret: SecretBytes(copying: secret), salt: salt, info: info, count: count)
  }
}
