/// A random number generator for simulations and tests: small, fast, and reproducible from its seed (Steele, Lea, Flood
/// 2014). It must not generate secrets.
public struct SplitMix64: RandomNumberGenerator, Sendable {
  @usableFromInline var state: UInt64

  @inlinable
  public init(seed: UInt64) {
    state = seed
  }

  @inlinable
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// True with the given probability. Probabilities of 0 and 1 consume no random number.
  @inlinable
  public mutating func chance(_ probability: Double) -> Bool {
    guard probability > 0 else { return false }
    guard probability < 1 else { return true }
    return Double(next() >> 11) * 0x1p-53 < probability
  }
}
