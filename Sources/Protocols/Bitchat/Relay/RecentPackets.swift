import Common

/// A key by which copies of a packet are told.
protocol RecentKey: Hashable, Sendable {
  /// Sixty-four evenly spread bits of the key.
  var filterBits: UInt64 { get }
}

/// The packets that came last, by their keys: a table of the least recently seen, behind a filter of bits. Facts: bitchat.md
/// sections 8.1 and 16, row 14.
///
/// The filter says at once that a key is new; that a key is known, the table alone decides. Both have a fixed size.
struct RecentPackets<Key: RecentKey>: Sendable {
  /// A key that was not seen for so long is forgotten.
  private let lifetime: Duration
  private let limit: Int

  private var filter: BitFilter
  private var slots: [Key: Int32] = [:]
  private var entries: [Entry] = []
  /// The slots of the key that was seen last, and of the one that was not seen for longest; -1 without keys.
  private var newest: Int32 = -1
  private var oldest: Int32 = -1
  private var free: [Int32] = []
  /// Keys that the filter took since it was made anew.
  private var filtered = 0

  private struct Entry: Sendable {
    var key: Key
    var seenAt: Instant
    var newer: Int32
    var older: Int32
  }

  init(limit: Int = Limits.recentPackets, lifetime: Duration = Limits.recentTime) {
    self.limit = max(1, limit)
    self.lifetime = lifetime
    filter = BitFilter(keys: self.limit)
  }

  var count: Int { slots.count }

  /// Whether the key was seen within the lifetime; if it was, its time begins anew.
  mutating func see(_ key: Key, at now: Instant) -> Bool {
    guard filter.mayContain(key.filterBits), let slot = slots[key] else { return false }
    let index = Int(slot)
    guard entries[index].seenAt.duration(to: now) < lifetime else {
      remove(slot)
      return false
    }
    entries[index].seenAt = now
    unlink(slot)
    linkAsNewest(slot)
    return true
  }

  /// Takes a key in. Where there are too many, the one that was not seen for longest is forgotten.
  mutating func insert(_ key: Key, at now: Instant) {
    guard !see(key, at: now) else { return }
    forgetOld(at: now)
    if slots.count >= limit { remove(oldest) }
    if filtered > limit / 2 { renewFilter() }
    let entry = Entry(key: key, seenAt: now, newer: -1, older: -1)
    let slot: Int32
    if let known = free.popLast() {
      slot = known
      entries[Int(slot)] = entry
    } else {
      slot = Int32(entries.count)
      entries.append(entry)
    }
    slots[key] = slot
    linkAsNewest(slot)
    filter.insert(key.filterBits)
    filtered += 1
  }

  private mutating func forgetOld(at now: Instant) {
    while oldest >= 0, entries[Int(oldest)].seenAt.duration(to: now) >= lifetime { remove(oldest) }
  }

  private mutating func remove(_ slot: Int32) {
    slots[entries[Int(slot)].key] = nil
    unlink(slot)
    free.append(slot)
  }

  /// A filter forgets nothing, so it is made anew when it has taken half as many keys as the table holds.
  private mutating func renewFilter() {
    filter.removeAll()
    for key in slots.keys { filter.insert(key.filterBits) }
    filtered = 0
  }

  private mutating func linkAsNewest(_ slot: Int32) {
    entries[Int(slot)].older = newest
    entries[Int(slot)].newer = -1
    if newest >= 0 { entries[Int(newest)].newer = slot } else { oldest = slot }
    newest = slot
  }

  private mutating func unlink(_ slot: Int32) {
    let (newer, older) = (entries[Int(slot)].newer, entries[Int(slot)].older)
    if newer >= 0 { entries[Int(newer)].older = older } else { newest = older }
    if older >= 0 { entries[Int(older)].newer = newer } else { oldest = newer }
  }
}

extension WireKey: RecentKey {
  var filterBits: UInt64 { hash.high }
}

extension PacketID: RecentKey {
  var filterBits: UInt64 { low }
}
