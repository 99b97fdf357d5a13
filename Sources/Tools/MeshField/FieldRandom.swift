import Common
import Crypto

/// Deterministic random numbers of a simulation.
struct FieldRandom: RandomSource, RandomNumberGenerator, Sendable {
  private var generator: SplitMix64

  init(seed: UInt64) { generator = SplitMix64(seed: seed) }

  /// Makes a separate generator for a use and a node.
  init(seed: UInt64, _ use: Use, _ number: Int = 0) {
    generator = SplitMix64(seed: seed &+ use.rawValue &* 0xA076_1D64_78BD_642F)
    generator = SplitMix64(seed: generator.next() &+ UInt64(number) &* 0xE703_7ED1_A0B4_28DB)
    generator = SplitMix64(seed: generator.next())
  }

  enum Use: UInt64 {
    case identities = 1
    case engines, air, places, roles, walks, churn, talk, links, flood
  }

  mutating func next() -> UInt64 { generator.next() }

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
