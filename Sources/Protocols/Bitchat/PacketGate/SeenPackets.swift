import BitchatWire
import Common

/// The recently received packets, by which copies are recognised, and how far this node has relayed each of them.
///
/// An attacker may send a copy ahead of a packet that is not relayed: its TTL ends at this node, or it answers a sync
/// request. A later copy that reaches at least two hops further is therefore still relayed. If one hop further were
/// enough, every packet that arrives over two ways would cost each node another transmission.
struct SeenPackets: Sendable {
  private var packets = RecentPackets<WireKey>()
  /// Announces. They are stored only for a short time: an announce that is older than the sender's last one is ignored
  /// anyway.
  private var announces = RecentPackets<WireKey>(lifetime: .seconds(60))
  /// Packets by their ID: a relay may have compressed them differently.
  private var ids = RecentPackets<PacketID>()

  /// The reach of a packet that is never relayed, whatever copies of it are received.
  static let ended = UInt8.max
  /// Minimum number of hops by which a copy must reach further to be relayed again.
  private static let gain: UInt8 = 2

  /// Number of packets stored by their bytes, and by their ID.
  var counts: (keys: Int, ids: Int) { (packets.count + announces.count, ids.count) }

  /// Whether a packet with these bytes was seen before. If so, its lifetime restarts.
  mutating func see(_ key: WireKey, _ type: MessageType, at now: Instant) -> Bool {
    type == .announce ? announces.see(key, at: now) : packets.see(key, at: now)
  }

  /// Whether a packet with this ID was seen before, in any encoding. If so, its lifetime restarts.
  mutating func see(_ id: PacketID, at now: Instant) -> Bool { ids.see(id, at: now) }

  mutating func insert(_ key: WireKey, _ type: MessageType, at now: Instant) {
    if type == .announce { announces.insert(key, at: now) } else { packets.insert(key, at: now) }
  }

  mutating func insert(_ id: PacketID, at now: Instant) { ids.insert(id, at: now) }

  // MARK: Reach of relayed packets

  /// Records the time to live with which a packet is relayed: 0 if it is not relayed, `ended` if no copy may change
  /// that.
  mutating func note(reach: UInt8, of key: WireKey, _ type: MessageType) {
    if type == .announce { announces.setNote(reach, of: key) } else { packets.setNote(reach, of: key) }
  }

  mutating func note(reach: UInt8, of id: PacketID) { ids.setNote(reach, of: id) }

  /// Copies the reach that is recorded for the bytes of a packet to its ID.
  mutating func shareReach(of key: WireKey, _ type: MessageType, with id: PacketID) {
    if let reach = (type == .announce ? announces : packets).note(of: key) { ids.setNote(reach, of: id) }
  }

  /// Whether a copy with this time to live reaches far enough beyond the recorded reach to be relayed.
  func isWorthwhile(_ timeToLive: UInt8, _ key: WireKey, _ type: MessageType) -> Bool {
    Self.isWorthwhile(timeToLive, (type == .announce ? announces : packets).note(of: key))
  }

  /// Whether a copy of the packet with this ID reaches far enough beyond the recorded reach to be relayed.
  func isWorthwhile(_ timeToLive: UInt8, _ id: PacketID) -> Bool { Self.isWorthwhile(timeToLive, ids.note(of: id)) }

  /// Whether a time to live reaches far enough beyond `reach` to be relayed; true if the reach is unknown (nil).
  static func isWorthwhile(_ timeToLive: UInt8, _ reach: UInt8?) -> Bool {
    guard let reach else { return true }
    return reach < ended - gain && timeToLive >= reach + gain
  }
}
