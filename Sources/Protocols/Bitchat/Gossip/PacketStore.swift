import BitchatWire

/// Packets of one kind, limited in number and bytes. The oldest is evicted first. With shares, the oldest of the
/// senders selected by `Shares` is evicted first.
struct PacketStore: Sendable {
  private let limit: Int
  private let byteLimit: Int
  private let isShared: Bool
  private var shares = Shares()
  private var ids: Set<PacketID> = []
  /// Packets, oldest first. With shares, packets of one timestamp are ordered by ID, otherwise by arrival.
  private(set) var items: [GossipArchive.Item] = []
  private(set) var bytes = 0

  /// - Parameter isShared: whether each sender has a share. Use only where senders are authenticated.
  init(limit: Int, byteLimit: Int, isShared: Bool = false) {
    (self.limit, self.byteLimit, self.isShared) = (limit, byteLimit, isShared)
  }

  var count: Int { items.count }

  /// Items with this timestamp or a later one, oldest first.
  ///
  /// - Parameter isWanted: filter on the hash of an item.
  func items(since time: UInt64, where isWanted: (UInt64) -> Bool) -> [GossipArchive.Item] {
    items[place { $0.timestamp < time }...].filter { isWanted($0.filterHash) }
  }

  /// Returns the number of leading items for which `isBefore` holds.
  private func place(where isBefore: (GossipArchive.Item) -> Bool) -> Int {
    var (low, high) = (0, items.count)
    while low < high {
      let middle = (low + high) / 2
      if isBefore(items[middle]) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  func has(_ id: PacketID) -> Bool { ids.contains(id) }

  /// Inserts a packet.
  ///
  /// - Returns: false for a packet that was stored before, and for one older than all packets of a full store.
  mutating func insert(_ item: GossipArchive.Item) -> Bool {
    guard ids.insert(item.id).inserted else { return false }
    // All fragments of a packet have one timestamp. Ordering them by ID would move half of them at each insertion.
    items.insert(
      item, at: isShared ? place { GossipArchive.Item.isOlder($0, item) } : place { $0.timestamp <= item.timestamp })
    bytes += item.bytes.count
    if isShared { shares.add(from: item.sender, via: item.via, bytes: item.bytes.count) }
    if !isShared, count > limit || bytes > byteLimit {
      // Evicts a 16th at once: moving the rest up for each insertion would take longer than all other work on a
      // fragment.
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

  /// Index of the packet to evict next; nil if the store is empty.
  private var next: Int? {
    guard isShared else { return items.indices.first }
    let losers = shares.firstToGo(within: (limit, byteLimit))
    return items.firstIndex { losers.contains($0.sender, via: $0.via) } ?? items.indices.first
  }

  /// Updates the index and sums for a packet that was removed from `items`.
  private mutating func forget(_ item: GossipArchive.Item) {
    guard ids.remove(item.id) != nil else { return }
    bytes -= item.bytes.count
    if isShared { shares.remove(from: item.sender, via: item.via, bytes: item.bytes.count) }
  }
}
