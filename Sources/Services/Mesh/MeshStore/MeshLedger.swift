import Bitchat
import Bytes
import Crypto

/// Which record is in which row, and which have to go: where there are too many of a kind, or where they are too old. It knows
/// no content: that is with the service, and on the disk.
struct MeshLedger: Sendable {
  /// What a record is about: there is one of each.
  enum Key: Hashable, Sendable {
    case identity, nickname, number, erased
    case pin(PeerID)
    case peer(PeerID)
    case outgoing(UInt32)
    case gossip(PacketID)
    case message(UInt32)
    case carried(CourierID)
    case file(UInt32)
    case deleted(UInt32)
  }

  /// Records of which so many are kept together.
  enum Shelf: CaseIterable, Sendable {
    case own, pins, peers, outgoing, gossip, publicMessages, privateMessages, carried, files, deletedFiles

    /// How many at most, and of how many bytes.
    var limit: (count: Int, bytes: Int) {
      switch self {
      case .own: (4, .max)
      case .pins: (4096, .max)
      case .peers: (1024, .max)
      case .outgoing: (1000, 80 << 20)
      case .gossip: (1000, 4 << 20)
      // 5,000 together. Strangers' lines cannot push out private ones.
      case .publicMessages: (1500, 4 << 20)
      case .privateMessages: (3500, 16 << 20)
      case .carried: (1000, 9 << 20)
      // Their bytes are a setting.
      case .files: (2000, .max)
      case .deletedFiles: (DeletedFile.limit, .max)
      }
    }

    /// Whether it holds what was said to everybody.
    var isPublic: Bool { [.gossip, .publicMessages].contains(self) }
  }

  struct Row: Hashable, Sendable {
    var id: Int64
    /// Milliseconds since 1970.
    var time: UInt64
    var bytes: Int
    /// The lowest goes first.
    var order: UInt64
    /// The user has chosen it: it goes after all others.
    var isChosen = false
    /// Of a peer that is a favourite or verified.
    var isTrusted = false
    /// The peer that a message or a file came from, or that has signed a packet; nil for what this node's user has said, and on
    /// other shelves.
    var origin: PeerID?
    /// The mark of the device that delivered it; nil if unknown.
    var via: UInt32?
    var file: FileRow?
  }

  /// What decides which file goes first, and where its content is.
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
  /// How long public lines and packets are kept; zero: not at all.
  private(set) var archiveMilliseconds: UInt64
  /// The most bytes of files, and for how long they are kept.
  private(set) var fileBytes: Int
  private var fileMilliseconds: UInt64
  private var nextID: Int64 = 1
  /// Rows that became free in this run. They are used again, so that what waits for the disk is never more than there is room for.
  private var freeIDs: [Int64] = []

  init(_ settings: MeshKeeper.Settings) {
    archiveMilliseconds = Self.milliseconds(settings.archive)
    fileBytes = settings.fileBytes
    fileMilliseconds = Self.milliseconds(settings.filesFor)
  }

  /// The places of all files.
  var filePlaces: Set<UInt64> { Set((shelves[.files] ?? [:]).values.compactMap(\.file?.place)) }

  private static func milliseconds(_ duration: Duration) -> UInt64 {
    UInt64(max(0, duration.components.seconds)) &* 1000
  }

  /// Whether there is a record of this.
  func has(_ key: Key, on shelf: Shelf) -> Bool { shelves[shelf]?[key] != nil }

  func count(_ shelf: Shelf) -> Int { shelves[shelf]?.count ?? 0 }

  // MARK: At the start

  /// Takes in a row that was read.
  ///
  /// - Returns: false if it has to go: there is another one of the same, public lines are not kept, or it is a peer of which
  ///   there is nothing to remember, as earlier releases wrote it.
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

  /// What has to be done on the disk for a change.
  ///
  /// - Parameter time: milliseconds since 1970, for what has no time of its own.
  /// - Throws: what is wrong with the change, of which nothing is done then.
  mutating func apply(_ change: MeshChange, at time: UInt64) throws(WireError) -> MeshWrites {
    switch change {
    case .nickname(let nickname): return try write(.nickname(nickname), at: time)
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

  /// Writes what outlives a wipe: the highest number that was given, and traces of what was erased.
  mutating func keep(_ survivors: WipeSurvivors, at time: UInt64) throws(WireError) -> MeshWrites {
    var writes = try raiseNumber(to: survivors.highestNumber, at: time)
    if let erased = survivors.erased { writes.add(try write(.erased(erased), at: time)) }
    return writes
  }

  /// Removes the traces of what was erased.
  mutating func forgetErased() -> MeshWrites {
    var writes = MeshWrites()
    remove(.erased, from: .own, &writes)
    return writes
  }

  /// Writes the identity of a node that has none.
  mutating func enter(_ identity: MeshEngine.Identity, at time: UInt64) throws(WireError) -> MeshWrites {
    try write(.identity(identity), at: time)
  }

  /// Removes a file, whether it has a row or not.
  mutating func discard(_ file: MeshFile) -> MeshWrites {
    var writes = MeshWrites()
    remove(.file(file.number), from: .files, &writes)
    writes.erased.insert(file.place)
    return writes
  }

  /// Sets for how long public lines and packets are kept. None are any more if that is zero.
  mutating func keepArchive(for duration: Duration) -> MeshWrites {
    archiveMilliseconds = Self.milliseconds(duration)
    return archiveMilliseconds > 0 ? MeshWrites() : removeAll { shelf, _ in shelf.isPublic }
  }

  /// Sets how much is kept of files, and for how long.
  mutating func keepFiles(bytes: Int, for duration: Duration) -> MeshWrites {
    (fileBytes, fileMilliseconds) = (bytes, Self.milliseconds(duration))
    var writes = MeshWrites()
    trim(.files, &writes)
    return writes
  }

  /// Removes what is too old.
  ///
  /// - Parameter time: milliseconds since 1970, by a clock that is known to be right.
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

  /// Removes what is too much, after all was restored.
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

extension MeshLedger {
  /// Where a record belongs.
  private struct Place {
    let key: Key
    let shelf: Shelf
    let time: UInt64
    let order: UInt64
    var isChosen = false
    var isTrusted = false
    var origin: PeerID?
    var via: UInt32?
    /// Of a file, what it takes.
    var bytes: Int?
    var file: FileRow?

    /// - Parameter time: for what has none of its own.
    init(_ record: MeshRecord, time: UInt64) {
      switch record {
      case .identity: (key, shelf, self.time, order) = (.identity, .own, time, 0)
      case .nickname: (key, shelf, self.time, order) = (.nickname, .own, time, 0)
      case .number: (key, shelf, self.time, order) = (.number, .own, time, 0)
      case .erased: (key, shelf, self.time, order) = (.erased, .own, time, 0)
      case .pin(let peer, _, _): (key, shelf, self.time, order) = (.pin(peer), .pins, time, time)
      case .peer(let marks):
        (key, shelf, self.time, order) = (.peer(marks.peer), .peers, marks.seenAt, marks.seenAt)
        (isChosen, isTrusted) = (marks.isChosen, marks.isFavourite || marks.isVerified)
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

    /// - Parameter bytes: what the record takes.
    func row(id: Int64, bytes: Int) -> Row {
      Row(
        id: id, time: time, bytes: self.bytes ?? bytes, order: order, isChosen: isChosen, isTrusted: isTrusted,
        origin: origin, via: via, file: file)
    }
  }

  /// The key of a record, and where it is to be looked for.
  static func key(of record: MeshRecord) -> (Key, Shelf) {
    let place = Place(record, time: 0)
    return (place.key, place.shelf)
  }
}
