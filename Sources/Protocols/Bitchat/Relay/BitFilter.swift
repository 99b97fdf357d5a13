/// A Bloom filter: it says of a key that it is new, or that it may be known. Sixteen bits and four probes a key: of a
/// hundred new keys it takes less than one for known.
struct BitFilter: Sendable {
  private var words: [UInt64]
  private let mask: UInt64

  /// - Parameter keys: how many it is made for.
  init(keys: Int) {
    var bits = 1024
    while bits < 16 * keys { bits *= 2 }
    words = [UInt64](repeating: 0, count: bits / 64)
    mask = UInt64(bits - 1)
  }

  /// - Parameter bits: sixty-four evenly spread bits of the key.
  func mayContain(_ bits: UInt64) -> Bool {
    var probe = bits
    for _ in 0..<4 {
      let place = probe & mask
      guard words[Int(place >> 6)] & (1 << (place & 63)) != 0 else { return false }
      probe = Self.next(probe)
    }
    return true
  }

  mutating func insert(_ bits: UInt64) {
    var probe = bits
    for _ in 0..<4 {
      let place = probe & mask
      words[Int(place >> 6)] |= 1 << (place & 63)
      probe = Self.next(probe)
    }
  }

  /// Other places for the same key: the bits, turned.
  private static func next(_ probe: UInt64) -> UInt64 { probe << 47 | probe >> 17 }
}
