import Common

/// Public packets that this node can give to a neighbour who missed them, as they came. Facts: bitchat.md section 9.
///
/// Of announces there is the newest one of each peer. Messages and fragments are kept for so long, and so many of them.
public struct GossipArchive: Sendable {
  /// A packet that is kept.
  public struct Item: Hashable, Sendable {
    typealias FragmentHead = (id: FragmentID, type: MessageType)

    /// The bytes as they came.
    public let bytes: [UInt8]
    public let id: PacketID
    public let type: MessageType
    public let sender: PeerID
    /// Milliseconds since 1970, by the sender's clock.
    public let timestamp: UInt64
    /// The hash of the ID that filters have: every request compares it.
    let filterHash: UInt64
    /// Of a fragment, which packet it belongs to.
    let fragment: FragmentID?
    /// Whether it is a file, or a fragment of one.
    let isFile: Bool
    /// The time to live that it came with; 0 of an answer to a request.
    let timeToLive: UInt8
    /// The mark of the device that delivered it; nil for this node's own packets, and if unknown.
    public let via: UInt32?

    /// - Parameter fragment: of a fragment, which packet it belongs to, and the type of that; nil where it is to be read from the bytes.
    init(
      bytes: [UInt8], id: PacketID, type: MessageType, sender: PeerID, timestamp: UInt64, fragment: FragmentHead? = nil,
      via: UInt32? = nil
    ) {
      self.via = via
      (self.bytes, self.id, self.type, self.sender, self.timestamp) = (bytes, id, type, sender, timestamp)
      filterHash = SyncFilter.hash(id)
      let head = type == .fragment ? fragment ?? Self.fragmentHead(in: bytes) : nil
      (self.fragment, isFile) = (head?.id, type == .fileTransfer || head?.type == .fileTransfer)
      timeToLive = bytes.count > 2 ? bytes[2] : 0
    }

    /// A stored packet; nil if the bytes are not a packet.
    public init?(bytes: [UInt8], via: UInt32? = nil) {
      guard let packet = try? Packet(decoding: bytes) else { return nil }
      self.init(bytes: bytes, of: packet, via: via)
    }

    /// A packet, and its bytes.
    init(bytes: [UInt8], of packet: Packet, via: UInt32? = nil) {
      self.init(
        bytes: bytes, id: PacketID(packet), type: packet.type, sender: packet.sender, timestamp: packet.timestamp,
        via: via)
    }
  }

  /// The most messages, and for how long each is kept by its own time.
  static let messageLimit = 1000
  static let messageMilliseconds: UInt64 = 6 * 3600 * 1000
  /// The most bytes of them.
  static let messageBytes = 4 << 20
  /// The most fragments of public packets and files that need none, and the most bytes of them: a file of 1 MiB and another one.
  static let fragmentLimit = 3000
  static let fragmentBytes = 3 << 19
  /// For how long a file is kept, whole or in fragments: nobody takes one that is older. The iOS app keeps them for so long.
  static let fileMilliseconds: UInt64 = 15 * 60 * 1000
  /// The most announces.
  static let announceLimit = PeerTable.peerLimit
  /// So old an announce may be by itself, and so old before messages of its sender.
  static let announceMilliseconds: UInt64 = 60 * 1000
  static let oldAnnounceMilliseconds: UInt64 = 900 * 1000
  /// So many announces crowd nothing out: a filter holds almost three times as many.
  static let crowd = 128
  /// Where there are more, those that have come as far as they go are given with messages alone. In a smaller field that would
  /// keep peers seven hops away from each other unknown, and their lines waiting.
  static let largeCrowd = 512
  /// Where there are too many, announces are asked for with every fourth request.
  static let announcesEvery = 4

  private var announces = DenseTable<PeerID, Item>()
  /// Peers whose announces are here no longer, as they have left.
  private var departed: Set<PeerID> = []
  private var messages = Shelf(limit: messageLimit, byteLimit: messageBytes, isShared: true)
  private var fragments = Shelf(limit: fragmentLimit, byteLimit: fragmentBytes)
  /// Whether messages are kept at all.
  private let keepsMessages: Bool

  /// - Parameter keepsMessages: false for a relay that stores nothing; it still knows announces.
  init(keepsMessages: Bool = true) {
    self.keepsMessages = keepsMessages
  }

  var messageCount: Int { messages.count }
  var announceCount: Int { announces.count }
  var fragmentCount: Int { fragments.count }
  var bytes: Int { announces.values.reduce(messages.bytes + fragments.bytes) { $0 + $1.bytes.count } }

  /// Keeps a packet whose signature holds, or a fragment of a public packet. Another type is not kept.
  ///
  /// - Returns: whether it is a message that was not there.
  mutating func keep(_ item: Item) -> Bool {
    switch item.type {
    case .announce:
      departed.remove(item.sender)
      if let place = announces.place(of: item.sender) {
        if announces.values[place].timestamp <= item.timestamp { announces.update(at: place) { $0 = item } }
        return false
      }
      announces[item.sender] = item
      if announces.count > Self.announceLimit, let oldest = announces.values.min(by: Item.isOlder) {
        announces[oldest.sender] = nil
      }
      return false
    case .message, SeedNumbers.seed.message: return keepsMessages && messages.insert(item)
    case .fragment:
      if keepsMessages { _ = fragments.insert(item) }
      return false
    case .fileTransfer:
      if keepsMessages, item.bytes.count <= Limits.frameBytes { _ = fragments.insert(item) }
      return false
    default: return false
    }
  }

  /// The last announce of a peer.
  func announce(of peer: PeerID) -> Item? { announces[peer] }

  /// Whether this is the last announce of a peer.
  func isLastAnnounce(_ id: PacketID, of peer: PeerID) -> Bool {
    announces.place(of: peer).map { announces.values[$0].id == id } ?? false
  }

  /// Whether a packet is a newer announce that says what the last one of its sender said.
  func isRepeated(by view: PacketView) -> Bool {
    guard let place = announces.place(of: view.sender) else { return false }
    return view.timestamp > announces.values[place].timestamp && view.hasPayload(of: announces.values[place].bytes)
  }

  /// The messages, and the files that are one packet.
  var publicPackets: [PacketID] { (messages.items + fragments.items).filter { $0.type != .fragment }.map(\.id) }

  func hasMessage(_ id: PacketID) -> Bool { messages.has(id) }

  /// A peer has left: it is not announced to anybody any more.
  mutating func leave(_ peer: PeerID) {
    announces[peer] = nil
    departed.insert(peer)
    // Of those that have said nothing no message is here.
    guard departed.count > Self.messageLimit else { return }
    departed.formIntersection(messages.items.map(\.sender))
  }

  /// Forgets the fragments of one packet.
  mutating func forget(_ id: FragmentID, of sender: PeerID) {
    fragments.removeAll { $0.fragment == id && $0.sender == sender }
  }

  /// The fragments that are here of these packets, whoever says to have sent them.
  func fragments(of ids: Set<FragmentID>) -> [FragmentID: [Item]] {
    var found: [FragmentID: [Item]] = [:]
    for item in fragments.items {
      if let id = item.fragment, ids.contains(id) { found[id, default: []].append(item) }
    }
    return found
  }

  /// Forgets a file that is one packet.
  mutating func forget(filePacket bytes: [UInt8]) { fragments.removeAll { $0.bytes == bytes } }

  /// Forgets everything of a sender who is blocked.
  mutating func forget(_ sender: PeerID) {
    announces[sender] = nil
    messages.removeAll { $0.sender == sender }
    fragments.removeAll { $0.sender == sender }
  }

  mutating func removeAll() { self = GossipArchive(keepsMessages: keepsMessages) }

  /// Forgets what is too old.
  ///
  /// - Parameter time: milliseconds since 1970, by this node's clock.
  mutating func age(at time: UInt64) {
    let old = announces.values.filter { !$0.isYounger(than: Self.oldAnnounceMilliseconds, at: time) }
    for item in old { leave(item.sender) }
    messages.removeAll { !$0.isYounger(than: Self.messageMilliseconds, at: time) }
    fragments.removeAll { !$0.isFresh(at: time) }
  }

  /// What a neighbour does not have, by what it says: announces that are fresh, and were passed on to here; messages; fragments and
  /// small files. Before the first that a sender has said goes that sender's announce, fresh or not, for nobody takes a line or a file
  /// from a peer that it does not know. The oldest come first.
  ///
  /// An announce that came in an answer itself is of somebody further away than announces are meant to go, and goes on with
  /// what its sender has said alone: else one neighbour after the other would bring everybody's to everybody, each time anew. In a large crowd the
  /// same holds of one that has come as far as its time to live brought it.
  func missing(_ request: SyncRequest, at time: UInt64) -> [Item] {
    let types = request.types ?? .usual
    let known = FilterValues(request.filter)
    func isWanted(_ item: Item) -> Bool { !known.mayHave(item.filterHash) }
    func isRecent(_ item: Item) -> Bool { item.timestamp >= request.since ?? 0 }

    var found: [Item] = []
    var announced: Set<PeerID> = []
    func announce(_ sender: PeerID, youngerThan limit: UInt64) {
      guard let item = announces[sender], item.isYounger(than: limit, at: time), isWanted(item),
        announced.insert(sender).inserted
      else { return }
      found.append(item)
    }
    /// What somebody has said goes behind that peer's announce.
    func give(_ items: [Item]) {
      for sender in Set(items.map(\.sender)).sorted() { announce(sender, youngerThan: Self.oldAnnounceMilliseconds) }
      found += items
    }
    // Announces have no beginning where messages are asked for as well: the iOS app's `since` says nothing of them.
    if types.contains(.announce) {
      let hasBeginning = types == .announce
      let fewestHops: UInt8 = announces.count > Self.largeCrowd ? 2 : 1
      let fresh = announces.values.filter {
        $0.timeToLive >= fewestHops && $0.isYounger(than: Self.announceMilliseconds, at: time)
          && (!hasBeginning || isRecent($0))
          && isWanted($0)
      }
      for item in fresh.sorted(by: Item.isOlder) { announce(item.sender, youngerThan: Self.announceMilliseconds) }
    }
    if types.contains(.message) {
      let oldest = max(request.since ?? 0, time - min(time, Self.messageMilliseconds))
      let wanted = messages.items(since: oldest) { !known.mayHave($0) }
      // Nobody takes a message of a peer that it does not know, and of one that has left there is no announce to give.
      give(wanted.filter { !departed.contains($0.sender) })
    }
    if types.contains(.fragment) {
      let asked = Set(request.fragments)
      let wanted = fragments.items.filter { item in
        guard let fragment = item.fragment, asked.isEmpty || asked.contains(fragment) else { return false }
        return isRecent(item) && isWanted(item) && item.isFresh(at: time)
      }
      give(wanted.sorted(by: Item.isOlder))
    }
    if types.contains(.fileTransfer) {
      let wanted = fragments.items.filter {
        $0.type == .fileTransfer && isRecent($0) && isWanted($0) && $0.isFresh(at: time)
      }
      give(wanted.sorted(by: Item.isOlder))
    }
    return found
  }

  /// Requests for what this node does not have. One asks for everything, as long as one filter holds all that this node has.
  /// Where announces would crowd the messages out of it, messages are asked for by themselves, and announces too, but seldom: flooding
  /// brings them, and each answer has those of the senders of its messages.
  ///
  /// - Parameters:
  ///   - round: how many requests went before to this neighbour.
  ///   - time: milliseconds since 1970, by this node's clock.
  func requests(for types: SyncTypes, round: Int, at time: UInt64) -> [SyncRequest] {
    let isOfBoth = types.contains(.announce) && types != .announce
    if !isOfBoth || announces.count <= Self.crowd || !isOverfull(types, at: time) {
      let all = request(for: types, at: time)
      guard isOfBoth, announces.count > Self.crowd, all?.since != nil else { return [all].compactMap(\.self) }
    }
    let isTimeForAnnounces = round.isMultiple(of: Self.announcesEvery)
    return [
      request(for: types.subtracting(.announce), at: time),
      isTimeForAnnounces ? request(for: .announce, at: time) : nil,
    ].compactMap(\.self)
  }

  /// Whether there is surely more than one filter holds.
  private func isOverfull(_ types: SyncTypes, at time: UInt64) -> Bool {
    let others = types.contains(.message) ? messages.count : 0
    guard others <= SyncFilter.mostUsual, others + announces.count > SyncFilter.mostUsual else {
      return others > SyncFilter.mostUsual
    }
    return others + announces.values.count { $0.isYounger(than: Self.announceMilliseconds, at: time) }
      > SyncFilter.mostUsual
  }

  /// A request for what this node does not have: a filter of what it has. Where that is too much for one filter, it is of the
  /// newest, and nothing older than those is asked for.
  ///
  /// - Parameters:
  ///   - isBare: whether it says no more than the seed's document has, in a shorter filter.
  ///   - time: milliseconds since 1970, by this node's clock.
  func request(for types: SyncTypes, isBare: Bool = false, at time: UInt64) -> SyncRequest? {
    // No filter holds more than the newest of each kind; one more shows that there are more.
    let most = SyncFilter.mostUsual + 1
    // Messages lie in their order; the others are put in between.
    var moments = types.contains(.message) ? messages.items.suffix(most).map { Moment($0) } : []
    let sorted = moments.count
    if types.contains(.announce) {
      for item in announces.values where item.isYounger(than: Self.announceMilliseconds, at: time) {
        moments.append(Moment(item))
      }
    }
    if !isBare, types.contains(.fragment) || types.contains(.fileTransfer) {
      let asked = fragments.items.lazy.reversed().filter {
        types.contains($0.type == .fragment ? .fragment : .fileTransfer)
      }
      moments += asked.prefix(most).map { Moment($0) }
    }
    if moments.count > sorted { moments.sort { $0.isOlder(than: $1) } }
    moments.reverse()
    let hashes = moments.map(\.filterHash)
    if isBare { return try? SyncRequest(filter: SyncFilter(hashes: hashes, bytes: SeedTalks.filterBytes)) }
    let filter = SyncFilter(hashes: hashes)
    // M is the number of IDs in the filter times 2^P.
    let included = Int(filter.m >> UInt32(filter.p))
    var since = included > 0 && included < moments.count ? moments[included - 1].timestamp : nil
    // Where the filter ends amid the fragments of one packet, these are not asked for: most of them are here.
    if let oldest = since, moments[included].timestamp == oldest, moments[included].isFragment { since = oldest + 1 }
    return try? SyncRequest(filter: filter, types: types, since: since)
  }

  /// What a request takes of an item: without its bytes, so that going through a thousand costs little.
  struct Moment: Sendable {
    let timestamp: UInt64
    let id: PacketID
    let filterHash: UInt64
    let isFragment: Bool

    init(_ item: Item) {
      (timestamp, id, filterHash) = (item.timestamp, item.id, item.filterHash)
      isFragment = item.type == .fragment
    }

    func isOlder(than other: Moment) -> Bool {
      (timestamp, id.high, id.low) < (other.timestamp, other.id.high, other.id.low)
    }
  }
}

extension GossipArchive.Item {
  /// The order of time; of one moment that of the IDs.
  static func isOlder(_ left: Self, _ right: Self) -> Bool {
    (left.timestamp, left.id.high, left.id.low) < (right.timestamp, right.id.high, right.id.low)
  }

  func isYounger(than age: UInt64, at time: UInt64) -> Bool {
    timestamp > time || time - timestamp <= age
  }

  /// Whether somebody may still take it: a file, a message, or a fragment of either.
  func isFresh(at time: UInt64) -> Bool {
    isYounger(than: isFile ? GossipArchive.fileMilliseconds : GossipArchive.messageMilliseconds, at: time)
  }

  /// The ID of the fragment that the bytes are, and the type of the packet that it is of.
  static func fragmentHead(in bytes: [UInt8]) -> FragmentHead? {
    guard let view = try? PacketView(bytes), view.type == .fragment else { return nil }
    let isPlain = !view.flags.contains(.compressed)
    let section = isPlain ? Array(view.section.prefix(Fragment.headerBytes)) : (try? Packet(view))?.payload ?? []
    guard let fragment = try? Fragment(reading: Array(section.prefix(Fragment.headerBytes))) else { return nil }
    return (fragment.id, fragment.type)
  }
}
