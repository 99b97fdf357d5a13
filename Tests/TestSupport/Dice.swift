import Common

/// Random numbers from a seed (SplitMix64), fast enough for a million draws.
public struct Dice: RandomNumberGenerator {
  private var random: SplitMix64

  /// Creates a generator. Adjacent seeds start at distant positions of the sequence.
  public init(_ seed: UInt64) {
    random = SplitMix64(seed: seed)
    random = SplitMix64(seed: random.next())
  }

  public mutating func next() -> UInt64 { random.next() }

  /// A number from 0 to `limit` - 1.
  public mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(max(1, limit))) }

  public mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 8)
    while bytes.count < count {
      withUnsafeBytes(of: next()) { bytes.append(contentsOf: $0) }
    }
    return Array(bytes.prefix(count))
  }

  /// A copy of `value` with a few random mutations: changed, removed, inserted or repeated bytes.
  public mutating func mutated(_ value: [UInt8]) -> [UInt8] {
    var value = value
    for _ in 0...below(2) {
      let index = below(value.count + 1)
      switch below(5) {
      case 0 where index < value.count: value[index] ^= 1 << UInt8(below(8))
      case 1 where index < value.count: value[index] = [0, 1, 0x7F, 0x80, 0xFF][below(5)]
      case 2: value.removeSubrange(index...)
      case 3: value.insert(UInt8(truncatingIfNeeded: next()), at: index)
      default: value += value.prefix(below(20))
      }
    }
    return value
  }
}
