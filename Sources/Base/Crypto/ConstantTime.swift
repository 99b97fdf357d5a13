import CSodium

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

/// Throws `badLength` unless `got` is `expected`.
func checkLength(_ got: Int, is expected: Int, of name: @autoclosure () -> String) throws(CryptoError) {
  guard got == expected else { throw .badLength(name(), expected: expected, got: got) }
}
