import CSodium

/// Comparisons that do not tell by their duration how much was right.
public enum ConstantTime {
  /// Whether both hold the same bytes; the time depends on nothing but their counts.
  public static func equal(_ left: some Collection<UInt8>, _ right: some Collection<UInt8>) -> Bool {
    left.withPointer { left, leftCount in
      right.withPointer { right, rightCount in
        leftCount == rightCount && sodium_memcmp(left, right, leftCount) == 0
      }
    }
  }
}

/// Throws `badLength` unless `got` is `expected`.
func checkLength(_ got: Int, is expected: Int, of name: String) throws(CryptoError) {
  guard got == expected else { throw .badLength(name, expected: expected, got: got) }
}
