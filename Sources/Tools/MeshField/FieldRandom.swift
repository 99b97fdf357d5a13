import Crypto

/// Deterministic random numbers of a simulation (SplitMix64; Steele, Lea, Flood 2014).
struct FieldRandom: RandomSource, RandomNumberGenerator, Sendable {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  /// Makes a separate generator for a use and a node.
  init(seed: UInt64, _ use: Use, _ number: Int = 0) {
    var mixed = FieldRandom(seed: seed &+ use.rawValue &* 0xA076_1D64_78BD_642F)
    state = mixed.next() &+ UInt64(number) &* 0xE703_7ED1_A0B4_28DB
    state = next()
  }

  enum Use: UInt64 {
    case identities = 1
    case engines, air, places, roles, walks, churn, talk, links, flood
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  mutating func fill(_ bytes: inout [UInt8]) {
    var index = 0
    while index < bytes.count {
      var word = next()
      for _ in 0..<min(8, bytes.count - index) {
        bytes[index] = UInt8(truncatingIfNeeded: word)
        word >>= 8
        index += 1
      }
    }
  }

  /// Returns true with this probability.
  mutating func chance(percent: Int) -> Bool {
    percent > 0 && next() % 100 < UInt64(percent)
  }

  /// Number from 0 to below 1.
  mutating func part() -> Double { Double(next() >> 11) * 0x1p-53 }

  mutating func number(_ range: ClosedRange<Int64>) -> Int64 {
    range.lowerBound + Int64(next() % UInt64(range.upperBound - range.lowerBound + 1))
  }

  mutating func number(below limit: Int) -> Int { limit > 0 ? Int(next() % UInt64(limit)) : 0 }
}
