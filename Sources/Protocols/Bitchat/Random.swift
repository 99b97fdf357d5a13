import Crypto

/// Numbers out of random bytes.
enum Random {
  /// A number of this range, all alike.
  static func number(_ range: ClosedRange<Int64>, _ random: inout some RandomSource) -> Int64 {
    let span = UInt64(range.upperBound - range.lowerBound) + 1
    return range.lowerBound + Int64(word(&random) % span)
  }

  /// A factor of this range.
  static func factor(_ range: ClosedRange<Double>, _ random: inout some RandomSource) -> Double {
    range.lowerBound + (range.upperBound - range.lowerBound) * Double(word(&random) >> 11) / Double(1 << 53)
  }

  private static func word(_ random: inout some RandomSource) -> UInt64 {
    random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
