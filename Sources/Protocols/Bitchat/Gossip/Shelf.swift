/// Packets of one kind, so many at most: the oldest goes first.
struct Shelf: Sendable {
  private let limit: Int
  private var byID: [PacketID: GossipArchive.Item] = [:]

  init(limit: Int) {
    self.limit = limit
  }

  var count: Int { byID.count }
  var items: some Collection<GossipArchive.Item> { byID.values }

  /// - Returns: false for a packet that was there, and for one that is older than all of a full shelf.
  mutating func insert(_ item: GossipArchive.Item) -> Bool {
    guard byID[item.id] == nil else { return false }
    byID[item.id] = item
    guard byID.count > limit, let oldest = byID.values.min(by: GossipArchive.Item.isOlder) else { return true }
    byID[oldest.id] = nil
    return oldest.id != item.id
  }

  mutating func removeAll(where isUnwanted: (GossipArchive.Item) -> Bool) {
    let unwanted = byID.values.filter(isUnwanted)
    for item in unwanted { byID[item.id] = nil }
  }
}
