import Common

/// Values per link, sorted by link number. A node has few links and looks one up for each frame: a linear search is
/// faster than hashing.
struct LinkTable<Value: Sendable>: Sendable {
  /// The IDs of all links in the table, in ascending order.
  private(set) var keys: [LinkID] = []
  private(set) var values: [Value] = []

  var count: Int { keys.count }
  var isEmpty: Bool { keys.isEmpty }

  func index(of link: LinkID) -> Int? {
    for index in keys.indices where keys[index] == link { return index }
    return nil
  }

  subscript(link: LinkID) -> Value? {
    get { index(of: link).map { values[$0] } }
    set {
      guard let index = index(of: link) else {
        guard let newValue else { return }
        let place = keys.firstIndex { $0.number > link.number } ?? keys.count
        keys.insert(link, at: place)
        values.insert(newValue, at: place)
        return
      }
      guard let newValue else {
        keys.remove(at: index)
        values.remove(at: index)
        return
      }
      values[index] = newValue
    }
  }

  /// Changes the value at an index returned by `index(of:)`.
  mutating func change(at index: Int, _ change: (inout Value) -> Void) { change(&values[index]) }
}

extension LinkTable: Sequence {
  struct Iterator: IteratorProtocol {
    fileprivate let table: LinkTable
    fileprivate var index = 0

    mutating func next() -> (key: LinkID, value: Value)? {
      guard index < table.count else { return nil }
      defer { index += 1 }
      return (table.keys[index], table.values[index])
    }
  }

  func makeIterator() -> Iterator { Iterator(table: self) }
}
