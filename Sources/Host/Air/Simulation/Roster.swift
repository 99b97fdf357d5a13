/// Values in insertion order, each with a unique number.
struct Roster<Value> {
  private(set) var entries: [(id: UInt64, value: Value)] = []
  private var last: UInt64 = 0

  var isEmpty: Bool { entries.isEmpty }
  var values: [Value] { entries.map(\.value) }

  @discardableResult
  mutating func add(_ value: Value) -> UInt64 {
    last += 1
    entries.append((last, value))
    return last
  }

  /// Removes and returns the value with this number; nil if there is none.
  @discardableResult
  mutating func remove(_ id: UInt64) -> Value? {
    index(of: id).map { entries.remove(at: $0).value }
  }

  /// The value with this number. Setting replaces an existing value; it never adds one.
  subscript(id: UInt64) -> Value? {
    get { index(of: id).map { entries[$0].value } }
    set {
      guard let index = index(of: id), let newValue else { return }
      entries[index].value = newValue
    }
  }

  /// Binary search for a number. Numbers only increase, so the entries are sorted by them.
  private func index(of id: UInt64) -> Int? {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].id < id { low = middle + 1 } else { high = middle }
    }
    return low < entries.count && entries[low].id == id ? low : nil
  }
}
