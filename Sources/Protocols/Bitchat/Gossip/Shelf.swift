/// Packets of one kind, so many and of so many bytes at most: the oldest goes first. Where no sender may take the room of all
/// others, the oldest of whoever takes the most goes first, if that is more than a quarter.
struct Shelf: Sendable {
  private let limit: Int
  private let byteLimit: Int
  private let isShared: Bool
  private var holdings: [PeerID: Holding] = [:]
  private var byID: [PacketID: GossipArchive.Item] = [:]
  private(set) var bytes = 0

  /// What a sender has here.
  private struct Holding: Sendable {
    var count = 0
    var bytes = 0
  }

  /// - Parameter isShared: whether a sender gives way when it has more than a quarter. Only where senders are certain.
  init(limit: Int, byteLimit: Int, isShared: Bool = false) {
    (self.limit, self.byteLimit, self.isShared) = (limit, byteLimit, isShared)
  }

  var count: Int { byID.count }
  var items: some Collection<GossipArchive.Item> { byID.values }

  func has(_ id: PacketID) -> Bool { byID[id] != nil }

  /// - Returns: false for a packet that was there, and for one that is older than all of a full shelf.
  mutating func insert(_ item: GossipArchive.Item) -> Bool {
    guard byID[item.id] == nil else { return false }
    byID[item.id] = item
    bytes += item.bytes.count
    holdings[item.sender, default: Holding()].count += 1
    holdings[item.sender, default: Holding()].bytes += item.bytes.count
    if !isShared, byID.count > limit || bytes > byteLimit {
      // Many at a time: to look for the oldest each time would take longer than all else that becomes of a fragment.
      for item in byID.values.sorted(by: GossipArchive.Item.isOlder).prefix(max(1, limit / 16)) { remove(item) }
    }
    while byID.count > limit || bytes > byteLimit, let next = next { remove(next) }
    return byID[item.id] != nil
  }

  mutating func removeAll(where isUnwanted: (GossipArchive.Item) -> Bool) {
    for item in byID.values.filter(isUnwanted) { remove(item) }
  }

  /// The packet that goes first.
  private var next: GossipArchive.Item? {
    let greedy = isShared ? greediest : nil
    return byID.values.filter { greedy == nil || $0.sender == greedy }.min(by: GossipArchive.Item.isOlder)
  }

  /// The sender that takes the most room, if that is more than a quarter of it.
  private var greediest: PeerID? {
    func part(_ holding: Holding) -> Double {
      max(Double(holding.count) / Double(limit), Double(holding.bytes) / Double(byteLimit))
    }
    let most = holdings.max { (part($0.value), $0.key) < (part($1.value), $1.key) }
    return most.flatMap { part($0.value) > 0.25 ? $0.key : nil }
  }

  private mutating func remove(_ item: GossipArchive.Item) {
    guard byID.removeValue(forKey: item.id) != nil, var holding = holdings[item.sender] else { return }
    bytes -= item.bytes.count
    holding.count -= 1
    holding.bytes -= item.bytes.count
    holdings[item.sender] = holding.count > 0 ? holding : nil
  }
}
