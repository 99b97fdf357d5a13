import Crypto

/// Random numbers.
enum Random {
  /// Returns a number of the range. All are equally likely, up to a negligible bias.
  static func number(_ range: ClosedRange<Int64>, _ random: inout some RandomSource) -> Int64 {
    let span = UInt64(range.upperBound - range.lowerBound) + 1
    return range.lowerBound + Int64(word(&random) % span)
  }

  /// Returns a uniformly distributed factor of the range.
  static func factor(_ range: ClosedRange<Double>, _ random: inout some RandomSource) -> Double {
    range.lowerBound + (range.upperBound - range.lowerBound) * Double(word(&random) >> 11) / Double(1 << 53)
  }

  private static func word(_ random: inout some RandomSource) -> UInt64 {
    random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
