/// The values of a filter, to be asked for one after the other: an answer to a request compares everything that a node keeps.
///
/// The values are sorted, and evenly spread where nobody has made them up, so the range is cut into parts, of which it is
/// known where each begins: a part has one or two values. However they lie, none is looked for longer than by halves.
struct FilterValues: Sendable {
  private static let parts = 512

  private let filter: SyncFilter
  /// Ascending.
  private let values: [UInt32]
  /// Where each part begins, and where the last one ends.
  private let begins: [UInt16]
  /// A value without so many of its lowest bits is the number of its part.
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

  /// Whether the filter seems to hold the ID that has this hash.
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
