import Common

/// A key by which copies of a packet are told.
protocol RecentKey: Hashable, Sendable {
  /// Sixty-four evenly spread bits of the key.
  var filterBits: UInt64 { get }
  /// As many others that nobody can aim at who makes up keys: else he could have them all begin in one place.
  var tableBits: UInt64 { get }
}

extension RecentKey {
  var tableBits: UInt64 { UInt64(truncatingIfNeeded: hashValue) }
}

/// The packets that came last, by their keys: a table of the least recently seen, behind a filter of bits. Facts: bitchat.md
/// sections 8.1 and 16, row 14.
///
/// The filter says at once that a key is new; that a key is known, the table alone decides. Both have a limit, and grow to it as
/// keys come: a node with few neighbours needs little of it.
struct RecentPackets<Key: RecentKey>: Sendable {
  /// Times are kept in tenths of a second: thirteen years have room.
  private static var tick: Int64 { 100_000_000 }
  /// No entry, in a slot or a link.
  private static var none: UInt16 { .max }
  private static var fewestKeys: Int { 64 }

  /// A key that was not seen for so many ticks is forgotten.
  private let lifetime: UInt32
  private let limit: Int

  private var filter: BitFilter
  /// The keys that the filter is made for, and those that it took since it was made anew.
  private var filterKeys: Int
  private var filtered = 0
  /// Where the entries are: a key's slot is the first free one from where its hash points. At least half of them are free.
  private var slots: [UInt16] = []
  private var entries: [Entry] = []
  /// A note of one byte for each entry. Inside the entry it would take eight bytes, because of the alignment.
  private var notes: [UInt8] = []
  /// The entries of the key that was seen last, and of the one that was not seen for longest.
  private var newest = UInt16.max
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

  /// Whether the key was seen within the lifetime; if it was, its time begins anew.
  mutating func see(_ key: Key, at now: Instant) -> Bool {
    guard filter.mayContain(key.filterBits), let slot = slot(of: key) else { return false }
    let (entry, tick) = (slots[slot], Self.tick(of: now))
    guard !isOld(entry, at: tick) else {
      remove(entry)
      return false
    }
    // Copies come together: those of one moment need not be put in order anew.
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

  /// Sets the note of a known key.
  mutating func setNote(_ note: UInt8, of key: Key) {
    if let slot = slot(of: key) { notes[Int(slots[slot])] = note }
  }

  /// Forgets a key: the next such packet is new.
  mutating func forget(_ key: Key) {
    if let slot = slot(of: key) { remove(slots[slot]) }
  }

  /// Inserts a key with a note of 0. Where there are too many, the least recently seen one is forgotten.
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

  /// - Returns: the entry's place.
  private mutating func take(_ entry: Entry) -> UInt16 {
    if let known = free.popLast() {
      entries[Int(known)] = entry
      notes[Int(known)] = 0
      return known
    }
    // Doubled arrays of a thousand nodes would be a gigabyte of nothing.
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

  /// A filter forgets nothing, so it is made anew when it has taken half as many keys as it is made for, and larger where the table
  /// has grown.
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

  /// Frees a slot, and moves those behind it up that would not be found any more.
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

extension WireKey: RecentKey {
  var filterBits: UInt64 { hash.high }
  // The hash has a key that is this node's secret.
  var tableBits: UInt64 { hash.low }
}

extension PacketID: RecentKey {
  var filterBits: UInt64 { low }
}
