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

  /// The reach of a packet that is never relayed, whatever copies of it arrive.
  static let ended = UInt8.max
  /// Minimum number of hops by which a copy must reach further to be relayed again.
  private static let gain: UInt8 = 2

  /// Number of packets stored by their bytes, and by their ID.
  var counts: (keys: Int, ids: Int) { (packets.count + announces.count, ids.count) }

  /// Whether a packet with these bytes was seen before. If so, its lifetime begins anew.
  mutating func see(_ key: WireKey, _ type: MessageType, at now: Instant) -> Bool {
    type == .announce ? announces.see(key, at: now) : packets.see(key, at: now)
  }

  /// Whether a packet with this ID was seen before, in any bytes. If so, its lifetime begins anew.
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

/// Bloom filter with sixteen bits and four probes per key. When filled with the keys that it is made for, less than 1 %
/// of new keys are false positives.
///
/// All probes of a key are in one block of 512 bits, a cache line.
struct BitFilter: Sendable {
  private var words: [UInt64]
  private let mask: UInt64

  private static let blockWords = 8
  private static let probes = 4

  /// - Parameter keys: number of keys for which the filter is made.
  init(keys: Int) {
    var bits = 1024
    while bits < 16 * keys { bits *= 2 }
    words = [UInt64](repeating: 0, count: bits / 64)
    mask = UInt64(bits / 512 - 1)
  }

  /// - Parameter bits: 64 uniformly distributed bits of the key.
  func mayContain(_ bits: UInt64) -> Bool {
    let block = Int(bits & mask) * Self.blockWords
    var probe = Self.probes(bits)
    for _ in 0..<Self.probes {
      guard words[block + Int(probe >> 6 & 7)] & (1 << (probe & 63)) != 0 else { return false }
      probe >>= 9
    }
    return true
  }

  mutating func insert(_ bits: UInt64) {
    let block = Int(bits & mask) * Self.blockWords
    var probe = Self.probes(bits)
    for _ in 0..<Self.probes {
      words[block + Int(probe >> 6 & 7)] |= 1 << (probe & 63)
      probe >>= 9
    }
  }

  /// Bits that select the probes in the block. They do not overlap those that select the block.
  private static func probes(_ bits: UInt64) -> UInt64 { bits >> 28 }
}
