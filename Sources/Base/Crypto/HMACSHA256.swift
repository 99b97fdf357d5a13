import CSodium

/// The message authentication code HMAC-SHA-256 (RFC 2104), with keys of any length.
public enum HMACSHA256 {
  /// Size of a code, in bytes.
  public static let size = Int(crypto_auth_hmacsha256_BYTES)

  /// The 32-byte code of the message.
  public static func authenticationCode(for message: some Collection<UInt8>, key: SecretBytes) -> [UInt8] {
    key.withPointer { code(for: message, $0, $1) }
  }

  /// The 32-byte code of the message, with a key that is not secret or is in ordinary memory.
  public static func authenticationCode(
    for message: some Collection<UInt8>, key: some Collection<UInt8>
  ) -> [UInt8] {
    key.withPointer { code(for: message, $0, $1) }
  }

  /// Compares all 32 bytes of the code in constant time. A truncated code is wrong.
  public static func verify(
    _ code: some Collection<UInt8>, for message: some Collection<UInt8>, key: SecretBytes
  ) -> Bool {
    ConstantTime.equal(code, authenticationCode(for: message, key: key))
  }

  /// The computation of one code, over portions of a message.
  struct Running {
    private var state = crypto_auth_hmacsha256_state()

    init(key: UnsafePointer<UInt8>, _ count: Int) {
      crypto_auth_hmacsha256_init(&state, key, count)
    }

    mutating func update(_ portion: some Collection<UInt8>) {
      _ = portion.withPointer { crypto_auth_hmacsha256_update(&state, $0, UInt64($1)) }
    }

    /// Writes the 32 bytes of the code and overwrites the state, which must be protected like the key.
    mutating func finish(to code: UnsafeMutablePointer<UInt8>) {
      crypto_auth_hmacsha256_final(&state, code)
      sodium_memzero(&state, MemoryLayout.size(ofValue: state))
    }
  }

  private static func code(
    for message: some Collection<UInt8>, _ key: UnsafePointer<UInt8>, _ keyCount: Int
  ) -> [UInt8] {
    [UInt8](count: size) { code in
      var running = Running(key: key, keyCount)
      running.update(message)
      running.finish(to: code)
    }
  }
}

/// Comparisons whose duration does not reveal the number of equal bytes.
public enum ConstantTime {
  /// Whether both contain equal bytes. The duration depends only on their counts.
  public static func equal(_ first: some Collection<UInt8>, _ second: some Collection<UInt8>) -> Bool {
    first.withPointer { first, firstCount in
      second.withPointer { second, secondCount in
        firstCount == secondCount && sodium_memcmp(first, second, firstCount) == 0
      }
    }
  }
}
