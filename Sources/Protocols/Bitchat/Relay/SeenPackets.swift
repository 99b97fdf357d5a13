import Common

/// The packets that came lately, by which copies are recognised, and how far this node has passed each of them on.
///
/// A copy may be sent ahead of a packet with a time to live that ends at this node, or as an answer to a request, which is not passed on.
/// So a later copy that reaches further has the packet passed on after all: at least two hops further, or any hop if it was not passed on
/// before. One hop more would cost every packet that came two ways another transmission by each node.
struct SeenPackets: Sendable {
  private var packets = RecentPackets<WireKey>()
  /// Announces: one that is older than the last one of its sender is no news in any case, so they need not be remembered for long.
  private var announces = RecentPackets<WireKey>(lifetime: .seconds(60))
  /// Packets by what they say: a relay may compress them anew.
  private var ids = RecentPackets<PacketID>()

  /// The reach of a packet that is not passed on, whatever copies of it come.
  static let ended = UInt8.max
  /// So much further a copy must reach.
  private static let gain: UInt8 = 2

  /// How many packets are remembered by their bytes, and by what they say.
  var counts: (keys: Int, ids: Int) { (packets.count + announces.count, ids.count) }

  /// Whether such bytes came before.
  mutating func see(_ key: WireKey, _ type: MessageType, at now: Instant) -> Bool {
    type == .announce ? announces.see(key, at: now) : packets.see(key, at: now)
  }

  /// Whether a packet that says this came before, in whatever bytes.
  mutating func see(_ id: PacketID, at now: Instant) -> Bool { ids.see(id, at: now) }

  mutating func insert(_ key: WireKey, _ type: MessageType, at now: Instant) {
    if type == .announce { announces.insert(key, at: now) } else { packets.insert(key, at: now) }
  }

  mutating func insert(_ id: PacketID, at now: Instant) { ids.insert(id, at: now) }

  // MARK: How far they went

  /// A packet is passed on with this time to live, or not at all: 0, or `ended` where no copy changes that.
  mutating func note(reach: UInt8, of key: WireKey, _ type: MessageType) {
    if type == .announce { announces.setNote(reach, of: key) } else { packets.setNote(reach, of: key) }
  }

  mutating func note(reach: UInt8, of id: PacketID) { ids.setNote(reach, of: id) }

  /// What is known of a packet by its bytes holds of what it says.
  mutating func shareReach(of key: WireKey, _ type: MessageType, with id: PacketID) {
    if let reach = (type == .announce ? announces : packets).note(of: key) { ids.setNote(reach, of: id) }
  }

  /// Whether a copy that would be passed on with this time to live reaches further than the packet went.
  func isWorthwhile(_ timeToLive: UInt8, _ key: WireKey, _ type: MessageType) -> Bool {
    Self.isWorthwhile(timeToLive, (type == .announce ? announces : packets).note(of: key))
  }

  /// The same where a packet is recognised by what it says.
  func isWorthwhile(_ timeToLive: UInt8, _ id: PacketID) -> Bool { Self.isWorthwhile(timeToLive, ids.note(of: id)) }

  /// The same of a packet that went so far; nil where that is not known.
  static func isWorthwhile(_ timeToLive: UInt8, _ reach: UInt8?) -> Bool {
    guard let reach else { return true }
    return reach == 0 ? timeToLive > 0 : timeToLive >= reach &+ gain && reach < ended - gain
  }
}
