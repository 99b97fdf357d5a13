/// Packets of one kind, so many and of so many bytes at most: the oldest goes first.
struct Shelf: Sendable {
  private let limit: Int
  private let byteLimit: Int
  private var byID: [PacketID: GossipArchive.Item] = [:]
  private(set) var bytes = 0

  init(limit: Int, byteLimit: Int) {
    self.limit = limit
    self.byteLimit = byteLimit
  }

  var count: Int { byID.count }
  var items: some Collection<GossipArchive.Item> { byID.values }

  func has(_ id: PacketID) -> Bool { byID[id] != nil }

  /// - Returns: false for a packet that was there, and for one that is older than all of a full shelf.
  mutating func insert(_ item: GossipArchive.Item) -> Bool {
    guard byID[item.id] == nil else { return false }
    byID[item.id] = item
    bytes += item.bytes.count
    while byID.count > limit || bytes > byteLimit, let oldest = byID.values.min(by: GossipArchive.Item.isOlder) {
      remove(oldest)
    }
    return byID[item.id] != nil
  }

  mutating func removeAll(where isUnwanted: (GossipArchive.Item) -> Bool) {
    for item in byID.values.filter(isUnwanted) { remove(item) }
  }

  private mutating func remove(_ item: GossipArchive.Item) {
    guard byID.removeValue(forKey: item.id) != nil else { return }
    bytes -= item.bytes.count
  }
}
