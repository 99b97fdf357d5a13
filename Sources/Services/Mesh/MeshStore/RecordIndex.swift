import Bitchat
import BitchatWire
import Bytes
import Crypto

/// Index of records and rows, which selects records to remove because of limits or age. It has no contents: these are
/// in the service and on disk.
struct RecordIndex: Sendable {
  /// Identifies a record; each exists once.
  enum Key: Hashable, Sendable {
    case identity, nickname, number, erased, uplinkKey
    case pin(PeerID)
    case peer(PeerID)
    case outgoing(UInt32)
    case gossip(PacketID)
    case message(UInt32)
    case carried(CourierID)
    case file(UInt32)
    case deleted(UInt32)
  }

  /// Group of records that share a limit.
  enum Shelf: CaseIterable, Sendable {
    case own, pins, peers, outgoing, gossip, publicMessages, privateMessages, carried, files, deletedFiles

    /// Maximum number of records in the group, and maximum sum of their bytes.
    var limit: (count: Int, bytes: Int) {
      switch self {
      case .own: (5, .max)
      case .pins: (4096, .max)
      case .peers: (1024, .max)
      case .outgoing: (1000, 80 << 20)
      case .gossip: (1000, 4 << 20)
      // 5,000 messages in all. Public ones of strangers cannot displace private ones.
      case .publicMessages: (1500, 4 << 20)
      case .privateMessages: (3500, 16 << 20)
      case .carried: (1000, 9 << 20)
      // The limit on bytes is a setting.
      case .files: (2000, .max)
      case .deletedFiles: (DeletedFile.limit, .max)
      }
    }

    /// Whether the group contains public messages or packets.
    var isPublic: Bool { [.gossip, .publicMessages].contains(self) }
  }

  struct Row: Hashable, Sendable {
    var id: Int64
    /// Time of the record, in milliseconds since 1970.
    var time: UInt64
    var bytes: Int
    /// Position in the order of eviction. The record with the lowest value is evicted first.
    var order: UInt64
    /// Whether the record belongs to a peer that the user has marked. Such records are evicted last.
    var isChosen = false
    /// Whether the record belongs to a favourite or verified peer.
    var isTrusted = false
    /// Sender of a message or file, or signer of a packet; nil for messages of this node's user, and in other groups.
    var origin: PeerID?
    /// Mark of the device that delivered the record; nil if unknown.
    var via: UInt32?
    var file: FileRow?
  }

  /// Properties of a file that decide about its eviction, and the location of its content.
  struct FileRow: Hashable, Sendable {
    var place: UInt64
    var isPrivate: Bool
  }

  static let privateMilliseconds: UInt64 = 30 * 24 * 3600 * 1000
  static let outgoingMilliseconds: UInt64 = 24 * 3600 * 1000
  static let carriedMilliseconds = CourierEnvelope.lifetime + CourierEnvelope.slack

  private(set) var shelves: [Shelf: [Key: Row]] = [:]
  private(set) var shares: [Shelf: Shares] = [:]
  private(set) var highestNumber: UInt32 = 0
  /// Lifetime of public messages and packets; zero if they are not stored.
  private(set) var archiveMilliseconds: UInt64
  /// Maximum sum of the bytes of all files.
  private(set) var fileBytes: Int
  /// Time after which a received file is removed, in milliseconds.
  private var fileMilliseconds: UInt64
  private var nextID: Int64 = 1
  /// Numbers of rows that were freed in this run. They are reused, so that fewer writes wait.
  private var freeIDs: [Int64] = []

  init(_ settings: NodeStore.Settings) {
    archiveMilliseconds = Self.milliseconds(settings.archive)
    fileBytes = settings.fileBytes
    fileMilliseconds = Self.milliseconds(settings.filesFor)
  }

  /// Locations on the disk of the contents of all stored files.
  var filePlaces: Set<UInt64> { Set((shelves[.files] ?? [:]).values.compactMap(\.file?.place)) }

  private static func milliseconds(_ duration: Duration) -> UInt64 {
    UInt64(max(0, duration.components.seconds)) &* 1000
  }

  /// Whether the index has a record with this key in the given group of records.
  func has(_ key: Key, on shelf: Shelf) -> Bool { shelves[shelf]?[key] != nil }

  func count(_ shelf: Shelf) -> Int { shelves[shelf]?.count ?? 0 }

  // MARK: Restoring at the start

  /// Restores a row.
  ///
  /// - Returns: false if it must be removed: it is a duplicate, public messages are not stored, or it is a peer without
  ///   marks, as earlier releases wrote it.
  mutating func restore(_ record: MeshRecord, id: Int64, time: UInt64, bytes: Int) -> Bool {
    nextID = max(nextID, id + 1)
    let place = Place(record, time: time)
    if case .number(let number) = record { highestNumber = max(highestNumber, number) }
    if case .message(let message) = record { highestNumber = max(highestNumber, message.number) }
    if case .outgoing(let message) = record { highestNumber = max(highestNumber, message.number) }
    if case .file(let file) = record { highestNumber = max(highestNumber, file.number) }
    if case .peer(let marks) = record, !marks.isMarked { return false }
    guard !has(place.key, on: place.shelf), archiveMilliseconds > 0 || !place.shelf.isPublic else { return false }
    put(place.row(id: id, bytes: bytes), as: place.key, on: place.shelf)
    return true
  }

  // MARK: Changes

  /// Returns the writes for a change.
  ///
  /// - Parameter time: milliseconds since 1970, for records without a time.
  /// - Throws: an error for an invalid change, which then has no effect.
  mutating func apply(_ change: MeshChange, at time: UInt64) throws(WireError) -> MeshWrites {
    switch change {
    case .nickname(let nickname): return try write(.nickname(nickname), at: time)
    case .uplinkKey(let key): return try write(.uplinkKey(key), at: time)
    case .pin(let peer, let key, let isProven): return try write(.pin(peer, key, isProven: isProven), at: time)
    case .peer(let marks):
      if marks.isMarked { return try write(.peer(marks), at: time) }
      var writes = MeshWrites()
      remove(.peer(marks.peer), from: .peers, &writes)
      return writes
    case .outgoing(let message): return try write(.outgoing(message), at: time)
    case .gossip(let item): return archiveMilliseconds == 0 ? MeshWrites() : try write(.gossip(item), at: time)
    case .message(let message):
      let isLeftOut = archiveMilliseconds == 0 && message.conversation == nil
      return isLeftOut ? try raiseNumber(to: message.number, at: time) : try write(.message(message), at: time)
    case .carried(let envelope): return try write(.carried(envelope), at: time)
    case .carriedNoMore(let id):
      var writes = MeshWrites()
      remove(.carried(id), from: .carried, &writes)
      return writes
    case .file(let file): return try write(.file(file), at: time)
    case .fileGone(let number):
      var writes = MeshWrites()
      remove(.file(number), from: .files, &writes)
      writes.emptiesLog = true
      return writes
    case .deleted(let file): return try write(.deleted(file), at: time)
    case .number(let number): return try raiseNumber(to: number, at: time)
    case .settled(let number):
      var writes = MeshWrites()
      remove(.outgoing(number), from: .outgoing, &writes)
      return writes
    case .forget(let peer):
      var writes = MeshWrites()
      remove(.pin(peer), from: .pins, &writes)
      remove(.peer(peer), from: .peers, &writes)
      writes.emptiesLog = true
      return writes
    }
  }

  /// Writes the data that survives a wipe: the highest number, and the hashes of the erased packets.
  mutating func keep(_ survivors: WipeSurvivors, at time: UInt64) throws(WireError) -> MeshWrites {
    var writes = try raiseNumber(to: survivors.highestNumber, at: time)
    if let erased = survivors.erased { writes.add(try write(.erased(erased), at: time)) }
    return writes
  }

  /// Removes the hashes of erased packets.
  mutating func forgetErased() -> MeshWrites {
    var writes = MeshWrites()
    remove(.erased, from: .own, &writes)
    return writes
  }

  /// Adds the row of a newly made identity to the writes.
  mutating func enter(_ identity: MeshEngine.Identity, at time: UInt64) throws(WireError) -> MeshWrites {
    try write(.identity(identity), at: time)
  }

  /// Removes a file and its content, even if the file has no row yet.
  mutating func discard(_ file: MeshFile) -> MeshWrites {
    var writes = MeshWrites()
    remove(.file(file.number), from: .files, &writes)
    writes.erased.insert(file.place)
    return writes
  }

  /// Sets the lifetime of public messages and packets. Zero removes them.
  mutating func keepArchive(for duration: Duration) -> MeshWrites {
    archiveMilliseconds = Self.milliseconds(duration)
    return archiveMilliseconds > 0 ? MeshWrites() : removeAll { shelf, _ in shelf.isPublic }
  }

  /// Sets the limits of files in bytes and time.
  mutating func keepFiles(bytes: Int, for duration: Duration) -> MeshWrites {
    (fileBytes, fileMilliseconds) = (bytes, Self.milliseconds(duration))
    var writes = MeshWrites()
    trim(.files, &writes)
    return writes
  }

  /// Removes expired records.
  ///
  /// - Parameter time: milliseconds since 1970, by a trusted clock.
  mutating func age(at time: UInt64) -> MeshWrites {
    let (archive, files) = (archiveMilliseconds, fileMilliseconds)
    return removeAll { shelf, row in
      let age = time > row.time ? time - row.time : 0
      return switch shelf {
      case .gossip, .publicMessages: age > archive
      case .privateMessages: age > Self.privateMilliseconds
      case .outgoing: age > Self.outgoingMilliseconds
      case .carried: age > Self.carriedMilliseconds
      case .files: age > files
      case .deletedFiles: age > DeletedFile.lifetime
      case .own, .pins, .peers: false
      }
    }
  }

  /// Removes records beyond the limits, after all were restored.
  mutating func fit() -> MeshWrites {
    var writes = MeshWrites()
    for shelf in Shelf.allCases { trim(shelf, &writes) }
    return writes
  }

  // MARK: Rows

  private mutating func write(_ record: MeshRecord, at time: UInt64) throws(WireError) -> MeshWrites {
    let content = try record.bytes()
    let place = Place(record, time: time)
    var writes = MeshWrites()
    let id = shelves[place.shelf]?[place.key]?.id ?? newID()
    put(place.row(id: id, bytes: content.count), as: place.key, on: place.shelf)
    writes.rows[id] = MeshRow(id: id, time: place.time, content: content)
    if case .message(let message) = record { writes.add(try raiseNumber(to: message.number, at: time)) }
    if case .outgoing(let message) = record { writes.add(try raiseNumber(to: message.number, at: time)) }
    if case .file(let file) = record { writes.add(try raiseNumber(to: file.number, at: time)) }
    trim(place.shelf, &writes, sparing: place.key)
    return writes
  }

  private mutating func raiseNumber(to number: UInt32, at time: UInt64) throws(WireError) -> MeshWrites {
    guard number > highestNumber else { return MeshWrites() }
    highestNumber = number
    return try write(.number(number), at: time)
  }

  private mutating func newID() -> Int64 {
    if let free = freeIDs.popLast() { return free }
    defer { nextID += 1 }
    return nextID
  }

  private mutating func put(_ row: Row, as key: Key, on shelf: Shelf) {
    let old = shelves[shelf, default: [:]].updateValue(row, forKey: key)
    if let old { shares[shelf]?.remove(from: old.origin, via: old.via, bytes: old.bytes) }
    shares[shelf, default: Shares()].add(from: row.origin, via: row.via, bytes: row.bytes)
  }

  private mutating func remove(_ key: Key, from shelf: Shelf, _ writes: inout MeshWrites) {
    guard let row = shelves[shelf]?.removeValue(forKey: key) else { return }
    shares[shelf]?.remove(from: row.origin, via: row.via, bytes: row.bytes)
    freeIDs.append(row.id)
    writes.rows[row.id] = MeshRow(id: row.id, time: 0, content: nil)
    if case .message(let number) = key { writes.removedMessages.append(number) }
    if case .file(let number) = key { writes.removedFiles.append(number) }
    if let file = row.file { writes.erased.insert(file.place) }
  }

  private mutating func removeAll(where isUnwanted: (Shelf, Row) -> Bool) -> MeshWrites {
    var writes = MeshWrites()
    for (shelf, rows) in shelves {
      for (key, row) in rows where isUnwanted(shelf, row) { remove(key, from: shelf, &writes) }
    }
    writes.removedMessages.sort()
    return writes
  }

  private mutating func trim(_ shelf: Shelf, _ writes: inout MeshWrites, sparing newest: Key? = nil) {
    let limit = limit(of: shelf)
    while shares[shelf, default: Shares()].total.isMore(than: limit),
      let first = firstToGo(from: shelf, sparing: newest)
    {
      remove(first, from: shelf, &writes)
    }
  }
}

extension RecordIndex {
  /// Properties of a record by which the index counts it towards the limits and orders evictions.
  private struct Place {
    let key: Key
    let shelf: Shelf
    let time: UInt64
    let order: UInt64
    var isChosen = false
    var isTrusted = false
    var origin: PeerID?
    var via: UInt32?
    /// Length of a file's content, in bytes; nil for other records.
    var bytes: Int?
    var file: FileRow?

    /// - Parameter time: time of records without one.
    init(_ record: MeshRecord, time: UInt64) {
      switch record {
      case .identity: (key, shelf, self.time, order) = (.identity, .own, time, 0)
      case .nickname: (key, shelf, self.time, order) = (.nickname, .own, time, 0)
      case .number: (key, shelf, self.time, order) = (.number, .own, time, 0)
      case .uplinkKey: (key, shelf, self.time, order) = (.uplinkKey, .own, time, 0)
      case .erased: (key, shelf, self.time, order) = (.erased, .own, time, 0)
      case .pin(let peer, _, _): (key, shelf, self.time, order) = (.pin(peer), .pins, time, time)
      case .peer(let marks):
        (key, shelf, self.time, order) = (.peer(marks.peer), .peers, marks.seenAt, marks.seenAt)
        (isChosen, isTrusted) = (marks.isChosen, marks.isTrusted)
      case .outgoing(let message):
        (key, shelf, self.time) = (.outgoing(message.number), .outgoing, message.createdAt)
        order = UInt64(message.number)
      case .gossip(let item):
        (key, shelf, self.time, order) = (.gossip(item.id), .gossip, item.timestamp, item.timestamp)
        (origin, via) = (item.sender, item.via)
      case .message(let message):
        (key, shelf) = (.message(message.number), message.conversation == nil ? .publicMessages : .privateMessages)
        (self.time, order, origin, via) = (message.time, UInt64(message.number), message.origin, message.via)
      case .carried(let envelope):
        (key, shelf) = (.carried(envelope.id), .carried)
        (self.time, order, isChosen) = (envelope.storedAt, envelope.storedAt, envelope.isOfFavourite)
      case .file(let file):
        (key, shelf, self.time, order) = (.file(file.number), .files, file.time, UInt64(file.number))
        (origin, bytes) = (file.sender, file.size)
        self.file = FileRow(place: file.place, isPrivate: file.packet == nil)
      case .deleted(let file):
        (key, shelf, self.time, order) = (.deleted(file.number), .deletedFiles, file.time, UInt64(file.number))
      }
    }

    /// - Parameter bytes: length of the record.
    func row(id: Int64, bytes: Int) -> Row {
      Row(
        id: id, time: time, bytes: self.bytes ?? bytes, order: order, isChosen: isChosen, isTrusted: isTrusted,
        origin: origin, via: via, file: file)
    }
  }

  /// Key and group of a record.
  static func key(of record: MeshRecord) -> (Key, Shelf) {
    let place = Place(record, time: 0)
    return (place.key, place.shelf)
  }
}

/// Decides which records are evicted first when a group exceeds its limit.
extension RecordIndex {
  func limit(of shelf: Shelf) -> Shares.Limit {
    (shelf.limit.count, shelf == .files ? fileBytes : shelf.limit.bytes)
  }

  /// Selects the record to evict from a group.
  ///
  /// - Parameter newest: record that was just written. A message stays, because its sender gets a receipt.
  func firstToGo(from shelf: Shelf, sparing newest: Key?) -> Key? {
    switch shelf {
    case .publicMessages, .privateMessages: messageToGo(from: shelf, sparing: newest)
    case .files: fileToGo()
    case .gossip: packetToGo()
    case .own, .pins, .peers, .outgoing, .carried, .deletedFiles:
      shelves[shelf]?.min(by: { goesBefore($0, $1) })?.key
    }
  }

  private func goesBefore(_ left: (key: Key, value: Row), _ right: (key: Key, value: Row)) -> Bool {
    let (isLeftChosen, isRightChosen) = (isChosen(left.key, left.value), isChosen(right.key, right.value))
    if isLeftChosen != isRightChosen { return isRightChosen }
    return (left.value.order, left.value.id) < (right.value.order, right.value.id)
  }

  /// Oldest message of the senders that are evicted first.
  private func messageToGo(from shelf: Shelf, sparing newest: Key?) -> Key? {
    let rows = shelves[shelf] ?? [:]
    let first = shares[shelf, default: Shares()].firstToGo(within: limit(of: shelf)) { isTrusted($0) }
    func oldest(where isMeant: (Row) -> Bool) -> Key? {
      var found: (key: Key, order: UInt64)?
      for (key, row) in rows where row.order < found?.order ?? UInt64.max && key != newest && isMeant(row) {
        found = (key, row.order)
      }
      return found?.key
    }
    // If a peer exceeds its share by its newest message alone, another message is evicted.
    return oldest { first.contains($0.origin, via: $0.via) } ?? oldest { _ in true }
  }

  /// The oldest packet of the senders whose packets are evicted first.
  private func packetToGo() -> Key? {
    let first = shares[.gossip, default: Shares()].firstToGo(within: limit(of: .gossip))
    let rows = shelves[.gossip] ?? [:]
    let ofFirst = rows.filter { first.contains($0.value.origin, via: $0.value.via) }
    return (ofFirst.isEmpty ? rows : ofFirst).min { goesBefore($0, $1) }?.key
  }

  /// Selects the file to evict. Public files go before private ones, and files of favourite and verified peers last.
  /// Among these, files of a sender with more than a quarter go first, then the oldest.
  private func fileToGo() -> Key? {
    let (limit, shares) = (limit(of: .files), shares[.files, default: Shares()])
    func standing(_ row: Row) -> (dearness: Int, share: Int, order: UInt64) {
      guard let file = row.file, let sender = row.origin else { return (0, 0, row.order) }
      return (
        isTrusted(sender) ? 2 : file.isPrivate ? 1 : 0, shares.isGreedy(sender, within: limit) ? 0 : 1, row.order
      )
    }
    return shelves[.files]?.min(by: { standing($0.value) < standing($1.value) })?.key
  }

  /// Whether the user has chosen the record, or the peer of a pin.
  private func isChosen(_ key: Key, _ row: Row) -> Bool {
    guard case .pin(let peer) = key else { return row.isChosen }
    return shelves[.peers]?[.peer(peer)]?.isChosen ?? false
  }

  private func isTrusted(_ peer: PeerID) -> Bool { shelves[.peers]?[.peer(peer)]?.isTrusted ?? false }
}
