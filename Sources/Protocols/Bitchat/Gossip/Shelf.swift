/// Packets of one kind, so many and of so many bytes at most: the oldest goes first, or, where nobody may take the room of all others, the
/// oldest of those that `Shares` names.
struct Shelf: Sendable {
  private let limit: Int
  private let byteLimit: Int
  private let isShared: Bool
  private var shares = Shares()
  private var ids: Set<PacketID> = []
  /// The oldest first; of one moment, where senders are certain, by their IDs, and else as they came.
  private(set) var items: [GossipArchive.Item] = []
  private(set) var bytes = 0

  /// - Parameter isShared: whether senders have shares. Only where they are certain.
  init(limit: Int, byteLimit: Int, isShared: Bool = false) {
    (self.limit, self.byteLimit, self.isShared) = (limit, byteLimit, isShared)
  }

  var count: Int { items.count }

  /// Those of this time and later, the oldest first.
  ///
  /// - Parameter isWanted: says it of the hash of an item.
  func items(since time: UInt64, where isWanted: (UInt64) -> Bool) -> [GossipArchive.Item] {
    items[place { $0.timestamp < time }...].filter { isWanted($0.filterHash) }
  }

  /// How many are so; the first ones are.
  private func place(where isBefore: (GossipArchive.Item) -> Bool) -> Int {
    var (low, high) = (0, items.count)
    while low < high {
      let middle = (low + high) / 2
      if isBefore(items[middle]) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  func has(_ id: PacketID) -> Bool { ids.contains(id) }

  /// - Returns: false for a packet that was there, and for one that is older than all of a full shelf.
  mutating func insert(_ item: GossipArchive.Item) -> Bool {
    guard ids.insert(item.id).inserted else { return false }
    // All fragments of a packet have its time: by their IDs, half of them would have to move for each that comes.
    items.insert(
      item, at: isShared ? place { GossipArchive.Item.isOlder($0, item) } : place { $0.timestamp <= item.timestamp })
    bytes += item.bytes.count
    if isShared { shares.add(from: item.sender, via: item.via, bytes: item.bytes.count) }
    if !isShared, count > limit || bytes > byteLimit {
      // Many at a time: to move the others up each time would take longer than all else that becomes of a fragment.
      let oldest = Array(items.prefix(max(1, limit / 16)))
      items.removeFirst(oldest.count)
      for item in oldest { forget(item) }
    }
    while count > limit || bytes > byteLimit, let next = next { forget(items.remove(at: next)) }
    return has(item.id)
  }

  mutating func removeAll(where isUnwanted: (GossipArchive.Item) -> Bool) {
    let unwanted = items.filter(isUnwanted)
    guard !unwanted.isEmpty else { return }
    items.removeAll(where: isUnwanted)
    for item in unwanted { forget(item) }
  }

  /// The place of the packet that goes first.
  private var next: Int? {
    guard isShared else { return items.indices.first }
    let losers = shares.firstToGo(within: (limit, byteLimit))
    return items.firstIndex { losers.contains($0.sender, via: $0.via) } ?? items.indices.first
  }

  /// Counts a packet out that has left `items`.
  private mutating func forget(_ item: GossipArchive.Item) {
    guard ids.remove(item.id) != nil else { return }
    bytes -= item.bytes.count
    if isShared { shares.remove(from: item.sender, via: item.via, bytes: item.bytes.count) }
  }
}
