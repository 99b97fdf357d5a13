/// Decoded values of a filter, for fast look-ups: answering a sync request compares all stored packets.
///
/// The values are sorted, and uniformly distributed unless an attacker chose them. An index of 512 parts leaves one or
/// two values per part. Binary search within a part bounds the time for any distribution.
struct FilterValues: Sendable {
  private static let parts = 512

  private let filter: SyncFilter
  /// In ascending order.
  private let values: [UInt32]
  /// Start index of each part, and end index of the last one.
  private let begins: [UInt16]
  /// Number of low bits that are dropped from a value to get its part.
  private let shift: UInt32

  init(_ filter: SyncFilter) {
    self.filter = filter
    values = filter.values()
    shift = UInt32(max(0, UInt32.bitWidth - filter.m.leadingZeroBitCount - Self.parts.trailingZeroBitCount))
    var begins = [UInt16](repeating: 0, count: Self.parts + 1)
    for value in values { begins[Int(value >> shift) + 1] += 1 }
    for part in 0..<Self.parts { begins[part + 1] += begins[part] }
    self.begins = begins
  }

  /// Whether the filter contains the ID with this hash, or a false positive.
  func mayHave(_ hash: UInt64) -> Bool {
    let value = filter.value(of: hash)
    let part = Int(value >> shift)
    var (low, high) = (Int(begins[part]), Int(begins[part + 1]))
    let end = high
    while low < high {
      let middle = (low + high) / 2
      if values[middle] < value { low = middle + 1 } else { high = middle }
    }
    return low < end && values[low] == value
  }
}
