/// Bloom filter with sixteen bits and four probes per key. When filled with the keys that it is made for, less than 1 %
/// of new keys are false positives.
///
/// All probes of a key are in one block of 512 bits, a cache line.
struct BitFilter: Sendable {
  private var words: [UInt64]
  private let mask: UInt64

  private static let blockWords = 8
  private static let probes = 4

  /// - Parameter keys: number of keys for which the filter is made.
  init(keys: Int) {
    var bits = 1024
    while bits < 16 * keys { bits *= 2 }
    words = [UInt64](repeating: 0, count: bits / 64)
    mask = UInt64(bits / 512 - 1)
  }

  /// - Parameter bits: 64 uniformly distributed bits of the key.
  func mayContain(_ bits: UInt64) -> Bool {
    let block = Int(bits & mask) * Self.blockWords
    var probe = Self.probes(bits)
    for _ in 0..<Self.probes {
      guard words[block + Int(probe >> 6 & 7)] & (1 << (probe & 63)) != 0 else { return false }
      probe >>= 9
    }
    return true
  }

  mutating func insert(_ bits: UInt64) {
    let block = Int(bits & mask) * Self.blockWords
    var probe = Self.probes(bits)
    for _ in 0..<Self.probes {
      words[block + Int(probe >> 6 & 7)] |= 1 << (probe & 63)
      probe >>= 9
    }
  }

  /// Bits that select the probes in the block. They do not overlap those that select the block.
  private static func probes(_ bits: UInt64) -> UInt64 { bits >> 28 }
}
