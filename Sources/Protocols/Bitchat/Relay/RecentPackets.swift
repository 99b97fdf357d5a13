import BitchatWire
import Common

/// Key that identifies copies of a packet.
protocol RecentKey: Hashable, Sendable {
  /// 64 bits of the key, uniformly distributed, by which the filter of the table finds absent keys fast.
  var filterBits: UInt64 { get }
  /// 64 bits that senders of packets cannot predict, so that they cannot cause collisions in the table.
  var tableBits: UInt64 { get }
}

extension RecentKey {
  var tableBits: UInt64 { UInt64(truncatingIfNeeded: hashValue) }
}

/// Recently seen packets, by their keys: a table ordered by last use, behind a Bloom filter. Facts: bitchat.md sections
/// 8.1 and 16, row 14.
///
/// The filter identifies most new keys at once; the table decides about the others. Both grow up to a limit: a node
/// with few neighbours needs little memory.
struct RecentPackets<Key: RecentKey>: Sendable {
  /// Nanoseconds per tick. Times are stored in tenths of a second; 32 bits cover thirteen years.
  private static var tick: Int64 { 100_000_000 }
  /// Index that stands for no entry, in a slot of the hash table or in a link of the list.
  private static var none: UInt16 { .max }
  private static var fewestKeys: Int { 64 }

  /// Number of ticks after which an unused key is forgotten.
  private let lifetime: UInt32
  private let limit: Int

  private var filter: BitFilter
  /// Number of keys that the filter is sized for.
  private var filterKeys: Int
  /// Number of keys inserted since the filter was rebuilt.
  private var filtered = 0
  /// Hash table of entry indices with linear probing; at least half of the slots are free.
  private var slots: [UInt16] = []
  private var entries: [Entry] = []
  /// One byte of data per entry. Inside `Entry` it would take eight bytes because of alignment.
  private var notes: [UInt8] = []
  /// Entry of the most recently seen key.
  private var newest = UInt16.max
  /// Entry of the least recently seen key.
  private var oldest = UInt16.max
  private var free: [UInt16] = []

  private struct Entry: Sendable {
    var key: Key
    var seenAt: UInt32
    var newer: UInt16
    var older: UInt16
  }

  /// - Parameter limit: at most 65,535 keys.
  init(limit: Int = Limits.recentPackets, lifetime: Duration = Limits.recentTime) {
    self.limit = min(max(1, limit), Int(Self.none))
    self.lifetime = UInt32(clamping: lifetime.wholeNanoseconds / Self.tick)
    filterKeys = Self.fewestKeys
    filter = BitFilter(keys: filterKeys)
  }

  var count: Int { entries.count - free.count }

  /// Whether the key was seen within the lifetime. If so, its lifetime restarts.
  mutating func see(_ key: Key, at now: Instant) -> Bool {
    guard filter.mayContain(key.filterBits), let slot = slot(of: key) else { return false }
    let (entry, tick) = (slots[slot], Self.tick(of: now))
    guard !isOld(entry, at: tick) else {
      remove(entry)
      return false
    }
    // Copies often arrive within one tick; the order need not change then.
    guard entries[Int(entry)].seenAt != tick else { return true }
    entries[Int(entry)].seenAt = tick
    if entry != newest {
      unlink(entry)
      linkAsNewest(entry)
    }
    return true
  }

  /// The note of a known key; nil for an unknown one. Does not extend the lifetime of the key.
  func note(of key: Key) -> UInt8? { slot(of: key).map { notes[Int(slots[$0])] } }

  /// Sets the byte that is stored with a known key.
  mutating func setNote(_ note: UInt8, of key: Key) {
    if let slot = slot(of: key) { notes[Int(slots[slot])] = note }
  }

  /// Removes a key: the next packet with it counts as new.
  mutating func forget(_ key: Key) {
    if let slot = slot(of: key) { remove(slots[slot]) }
  }

  /// Inserts a key with a note of 0. At the limit, the least recently seen key is removed.
  mutating func insert(_ key: Key, at now: Instant) {
    guard !see(key, at: now) else { return }
    let tick = Self.tick(of: now)
    while oldest != Self.none, isOld(oldest, at: tick) { remove(oldest) }
    if count >= limit { remove(oldest) }
    if filtered >= filterKeys / 2 { renewFilter() }
    let place = take(Entry(key: key, seenAt: tick, newer: Self.none, older: Self.none))
    if 2 * entries.count > slots.count { growSlots() } else { slots[freeSlot(for: key)] = place }
    linkAsNewest(place)
    filter.insert(key.filterBits)
    filtered += 1
  }

  /// Stores an entry at a free index.
  ///
  /// - Returns: index of the entry.
  private mutating func take(_ entry: Entry) -> UInt16 {
    if let known = free.popLast() {
      entries[Int(known)] = entry
      notes[Int(known)] = 0
      return known
    }
    // Growing by a quarter instead of doubling saves about a gigabyte with a thousand nodes in one process.
    if entries.count == entries.capacity {
      entries.reserveCapacity(min(limit, entries.count + entries.count / 4 + 8))
      notes.reserveCapacity(entries.capacity)
    }
    entries.append(entry)
    notes.append(0)
    return UInt16(entries.count - 1)
  }

  private static func tick(of now: Instant) -> UInt32 { UInt32(truncatingIfNeeded: now.nanoseconds / tick) }

  private func isOld(_ entry: UInt16, at tick: UInt32) -> Bool { tick &- entries[Int(entry)].seenAt >= lifetime }

  private mutating func remove(_ entry: UInt16) {
    if let slot = slot(of: entries[Int(entry)].key) { clear(slot) }
    unlink(entry)
    free.append(entry)
  }

  /// Rebuilds the filter, which cannot remove keys, after half as many insertions as it is made for. The new one is
  /// larger if the table has grown.
  private mutating func renewFilter() {
    while filterKeys < limit, 4 * count >= filterKeys { filterKeys *= 2 }
    filter = BitFilter(keys: filterKeys)
    for slot in slots where slot != Self.none { filter.insert(entries[Int(slot)].key.filterBits) }
    filtered = 0
  }

  // MARK: Slots

  private func home(of key: Key) -> Int { Int(truncatingIfNeeded: key.tableBits) & (slots.count - 1) }

  private func slot(of key: Key) -> Int? {
    guard !slots.isEmpty else { return nil }
    var slot = home(of: key)
    while slots[slot] != Self.none {
      if entries[Int(slots[slot])].key == key { return slot }
      slot = (slot + 1) & (slots.count - 1)
    }
    return nil
  }

  private func freeSlot(for key: Key) -> Int {
    var slot = home(of: key)
    while slots[slot] != Self.none { slot = (slot + 1) & (slots.count - 1) }
    return slot
  }

  private mutating func growSlots() {
    slots = Array(repeating: Self.none, count: max(2 * Self.fewestKeys, 2 * slots.count))
    let unused = Set(free)
    for place in entries.indices where !unused.contains(UInt16(place)) {
      slots[freeSlot(for: entries[place].key)] = UInt16(place)
    }
  }

  /// Frees a slot, and moves later entries up so that they are still found.
  private mutating func clear(_ slot: Int) {
    let mask = slots.count - 1
    var (hole, next) = (slot, (slot + 1) & mask)
    while slots[next] != Self.none {
      let way = (next - home(of: entries[Int(slots[next])].key)) & mask
      if way >= (next - hole) & mask {
        slots[hole] = slots[next]
        hole = next
      }
      next = (next + 1) & mask
    }
    slots[hole] = Self.none
  }

  // MARK: Order

  private mutating func linkAsNewest(_ entry: UInt16) {
    entries[Int(entry)].older = newest
    entries[Int(entry)].newer = Self.none
    if newest != Self.none { entries[Int(newest)].newer = entry } else { oldest = entry }
    newest = entry
  }

  private mutating func unlink(_ entry: UInt16) {
    let (newer, older) = (entries[Int(entry)].newer, entries[Int(entry)].older)
    if newer != Self.none { entries[Int(newer)].older = older } else { newest = older }
    if older != Self.none { entries[Int(older)].newer = newer } else { oldest = newer }
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

  /// Makes an empty filter.
  ///
  /// - Parameter keys: number of keys for which the filter is made.
  init(keys: Int) {
    var bits = 1024
    while bits < 16 * keys { bits *= 2 }
    words = [UInt64](repeating: 0, count: bits / 64)
    mask = UInt64(bits / 512 - 1)
  }

  /// Whether the filter contains a key, or has a false positive.
  ///
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

extension WireKey: RecentKey {
  var filterBits: UInt64 { hash.high }
  // The hash is keyed with a secret of this node.
  var tableBits: UInt64 { hash.low }
}

extension PacketID: RecentKey {
  var filterBits: UInt64 { low }
}

/// Sender and ID of a received private message.
struct ReceivedMessage: RecentKey {
  let sender: PeerID
  let id: MessageID

  var filterBits: UInt64 {
    var hasher = Hasher()
    hash(into: &hasher)
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}
