/// Dictionary with contiguous values, for many large values. `Dictionary` leaves a quarter to five eighths of its slots
/// empty, each as large as a value; here only the index has empty slots.
///
/// Values are ordered by insertion. After a removal, the last value moves to the free index.
struct DenseTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private var places: [Key: UInt32] = [:]
  private(set) var keys: [Key] = []
  private(set) var values: [Value] = []

  init() {}

  var count: Int { values.count }

  func holds(_ key: Key) -> Bool { places[key] != nil }

  /// Index of a key's value, valid until a value is removed.
  func place(of key: Key) -> Int? { places[key].map(Int.init) }

  subscript(key: Key) -> Value? {
    get { place(of: key).map { values[$0] } }
    set {
      guard let newValue else { return remove(key) }
      if let place = place(of: key) { values[place] = newValue } else { append(newValue, for: key) }
    }
  }

  /// Changes the value of a key in place, if there is one.
  mutating func update(_ key: Key, _ change: (inout Value) -> Void) {
    if let place = place(of: key) { change(&values[place]) }
  }

  /// Changes the value at an index that `place(of:)` returned.
  mutating func update(at place: Int, _ change: (inout Value) -> Void) { change(&values[place]) }

  private mutating func append(_ value: Value, for key: Key) {
    // Grows by an eighth instead of doubling.
    if values.count == values.capacity {
      values.reserveCapacity(values.count + max(16, values.count / 8))
      keys.reserveCapacity(values.capacity)
    }
    places[key] = UInt32(values.count)
    keys.append(key)
    values.append(value)
  }

  private mutating func remove(_ key: Key) {
    guard let place = places.removeValue(forKey: key).map(Int.init) else { return }
    let last = keys.removeLast()
    let value = values.removeLast()
    guard place < values.count else { return }
    (keys[place], values[place]) = (last, value)
    places[last] = UInt32(place)
  }
}
