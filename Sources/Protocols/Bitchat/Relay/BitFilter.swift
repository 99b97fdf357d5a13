/// A Bloom filter: it says of a key that it is new, or that it may be known. Sixteen bits and four probes a key: of a
/// hundred new keys it takes less than one for known.
///
/// All probes of a key are in one block of 512 bits, which the processor fetches at once.
struct BitFilter: Sendable {
  private var words: [UInt64]
  private let mask: UInt64

  private static let blockWords = 8
  private static let probes = 4

  /// - Parameter keys: how many it is made for.
  init(keys: Int) {
    var bits = 1024
    while bits < 16 * keys { bits *= 2 }
    words = [UInt64](repeating: 0, count: bits / 64)
    mask = UInt64(bits / 512 - 1)
  }

  /// - Parameter bits: sixty-four evenly spread bits of the key.
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

  /// The places in the block: the upper half of the bits, which does not say which block it is.
  private static func probes(_ bits: UInt64) -> UInt64 { bits >> 28 }
}
