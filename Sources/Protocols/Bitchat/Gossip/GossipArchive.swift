import BitchatWire
import Common

/// Public packets, stored as received, which this node can send to neighbours that missed them. Facts: bitchat.md
/// section 9.
///
/// Holds the newest announce per peer. Messages and fragments are limited in age, number and bytes.
public struct GossipArchive: Sendable {
  /// A public packet that is stored for sync answers.
  public struct Item: Hashable, Sendable {
    /// The packet's bytes as they were received.
    public let bytes: [UInt8]
    public let id: PacketID
    public let type: MessageType
    public let sender: PeerID
    /// Timestamp of the packet, in milliseconds since 1970 by the sender's clock.
    public let timestamp: UInt64
    /// Hash of the ID for sync filters, computed once because every request compares it.
    let filterHash: UInt64
    /// Fragment ID; nil for other packets.
    let fragment: FragmentID?
    /// Whether the packet is a file, or a fragment of one.
    let isFile: Bool
    /// TTL on arrival; 0 for an answer to a sync request.
    let timeToLive: UInt8
    /// Mark of the device that delivered the packet. Nil for this node's own packets, and if unknown.
    public let via: UInt32?

    /// - Parameter fragment: ID and packet type of a fragment, if known; nil to read them from the bytes.
    init(
      bytes: [UInt8], id: PacketID, type: MessageType, sender: PeerID, timestamp: UInt64,
      fragment: Fragment.Head? = nil,
      via: UInt32? = nil
    ) {
      self.via = via
      (self.bytes, self.id, self.type, self.sender, self.timestamp) = (bytes, id, type, sender, timestamp)
      filterHash = SyncFilter.hash(id)
      let head = type == .fragment ? fragment ?? Fragment.head(of: bytes) : nil
      (self.fragment, isFile) = (head?.id, type == .fileTransfer || head?.type == .fileTransfer)
      timeToLive = bytes.count > 2 ? bytes[2] : 0
    }

    /// Decodes a packet. Nil if the bytes are not a packet.
    public init?(bytes: [UInt8], via: UInt32? = nil) {
      guard let packet = try? Packet(decoding: bytes) else { return nil }
      self.init(bytes: bytes, of: packet, via: via)
    }

    /// Stores a decoded packet with its bytes.
    init(bytes: [UInt8], of packet: Packet, via: UInt32? = nil) {
      self.init(
        bytes: bytes, id: PacketID(packet), type: packet.type, sender: packet.sender, timestamp: packet.timestamp,
        via: via)
    }
  }

  /// Maximum number of public messages that are stored for sync answers.
  static let messageLimit = 1000
  /// Maximum age of a message by its timestamp, in milliseconds.
  static let messageMilliseconds: UInt64 = 6 * 3600 * 1000
  /// Maximum size of these messages together, in bytes.
  static let messageBytes = 4 << 20
  /// Maximum number of stored fragments of public packets, and of unfragmented files.
  static let fragmentLimit = 3000
  /// Maximum bytes of these fragments and files: enough for one and a half files of 1 MiB.
  static let fragmentBytes = 3 << 19
  /// Maximum age of a file, whole or in fragments, in milliseconds. Receivers reject older ones; the iOS app uses the
  /// same value.
  static let fileMilliseconds: UInt64 = 15 * 60 * 1000
  /// Maximum number of announces that are stored, one for each peer.
  static let announceLimit = PeerTable.peerLimit
  /// Maximum age of an announce that is sent without a message of its sender, in milliseconds.
  static let announceMilliseconds: UInt64 = 60 * 1000
  /// Maximum age of an announce that is sent before messages of its sender, in milliseconds.
  static let oldAnnounceMilliseconds: UInt64 = 900 * 1000
  /// Maximum number of announces that share a filter with messages. A filter holds almost three times as many IDs.
  static let crowd = 128
  /// Number of announces above which those that arrived with a TTL of 1 are sent only with messages. In smaller
  /// networks this rule would leave peers seven hops apart unknown to each other, so that they would not show each
  /// other's public messages.
  static let largeCrowd = 512
  /// With more announces than `crowd`, every fourth request asks for announces.
  static let announcesEvery = 4

  private var announces = DenseTable<PeerID, Item>()
  /// Peers that have left. Their announces are removed, and their packets are not sent to neighbours.
  private var departed: Set<PeerID> = []
  private var messages = PacketStore(limit: messageLimit, byteLimit: messageBytes, isShared: true)
  private var fragments = PacketStore(limit: fragmentLimit, byteLimit: fragmentBytes)
  /// Whether messages are stored at all.
  private let keepsMessages: Bool

  /// - Parameter keepsMessages: false for a relay, which stores only announces.
  init(keepsMessages: Bool = true) {
    self.keepsMessages = keepsMessages
  }

  var messageCount: Int { messages.count }
  var announceCount: Int { announces.count }
  var fragmentCount: Int { fragments.count }
  var bytes: Int { announces.values.reduce(messages.bytes + fragments.bytes) { $0 + $1.bytes.count } }

  /// Stores a packet whose signature is valid, or a fragment of a public packet. Ignores other types.
  ///
  /// - Returns: whether it is a new message.
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
    case _ where item.type.mayBePublicMessage: return keepsMessages && messages.insert(item)
    case .fragment:
      if keepsMessages { _ = fragments.insert(item) }
      return false
    case .fileTransfer:
      if keepsMessages, item.bytes.count <= Limits.frameBytes { _ = fragments.insert(item) }
      return false
    default: return false
    }
  }

  /// Returns the latest announce of a peer; nil if none is stored.
  func announce(of peer: PeerID) -> Item? { announces[peer] }

  /// Whether the packet is the latest announce of a peer.
  func isLastAnnounce(_ id: PacketID, of peer: PeerID) -> Bool {
    announces.place(of: peer).map { announces.values[$0].id == id } ?? false
  }

  /// Whether a packet is a newer announce with the payload of its sender's latest one.
  func isRepeated(by view: PacketView) -> Bool {
    guard let place = announces.place(of: view.sender) else { return false }
    return view.timestamp > announces.values[place].timestamp && view.hasPayload(of: announces.values[place].bytes)
  }

  /// IDs of stored messages and unfragmented files.
  var publicPackets: [PacketID] { (messages.items + fragments.items).filter { $0.type != .fragment }.map(\.id) }

  func hasMessage(_ id: PacketID) -> Bool { messages.has(id) }

  /// Removes the announce of a peer that has left.
  mutating func leave(_ peer: PeerID) {
    announces[peer] = nil
    departed.insert(peer)
    // The store has no messages of peers that are dropped here.
    guard departed.count > Self.messageLimit else { return }
    departed.formIntersection(messages.items.map(\.sender))
  }

  /// Removes the fragments of one packet.
  mutating func forget(_ id: FragmentID, of sender: PeerID) {
    fragments.removeAll { $0.fragment == id && $0.sender == sender }
  }

  /// Returns the stored fragments of these packets, whatever sender they name.
  func fragments(of ids: Set<FragmentID>) -> [FragmentID: [Item]] {
    var found: [FragmentID: [Item]] = [:]
    for item in fragments.items {
      if let id = item.fragment, ids.contains(id) { found[id, default: []].append(item) }
    }
    return found
  }

  /// Removes a file that was sent in one packet, with these bytes.
  mutating func forget(filePacket bytes: [UInt8]) { fragments.removeAll { $0.bytes == bytes } }

  /// Removes all packets of a blocked sender.
  mutating func forget(_ sender: PeerID) {
    announces[sender] = nil
    messages.removeAll { $0.sender == sender }
    fragments.removeAll { $0.sender == sender }
  }

  mutating func removeAll() { self = GossipArchive(keepsMessages: keepsMessages) }

  /// Removes packets that exceed their maximum age.
  ///
  /// - Parameter time: milliseconds since 1970, by this node's clock.
  mutating func age(at time: UInt64) {
    let old = announces.values.filter { !$0.isYounger(than: Self.oldAnnounceMilliseconds, at: time) }
    for item in old { leave(item.sender) }
    messages.removeAll { !$0.isYounger(than: Self.messageMilliseconds, at: time) }
    fragments.removeAll { !$0.isFresh(at: time) }
  }

  /// Packets that a neighbour lacks according to its request: recent announces, messages, fragments and unfragmented
  /// files, oldest first.
  ///
  /// The announce of a sender, recent or not, precedes its first packet, because nodes reject messages and files of
  /// unknown peers.
  ///
  /// An announce received in a sync answer comes from beyond the usual reach of announces. It is sent only with packets
  /// of its sender; otherwise neighbours would spread every announce to everybody. In networks above `largeCrowd` this
  /// also holds for announces that arrived with a TTL of 1.
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
    /// Appends packets, each after the announce of its sender.
    func give(_ items: [Item]) {
      for sender in Set(items.map(\.sender)).sorted() { announce(sender, youngerThan: Self.oldAnnounceMilliseconds) }
      found += items
    }
    // If messages are requested too, `since` does not limit announces: in requests of the iOS app it concerns messages
    // only.
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
      // Nodes reject messages of unknown peers, and there is no announce to send for a peer that has left.
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

  /// Requests for the packets that this node lacks.
  ///
  /// A single request asks for all types if one filter holds everything that this node has. If announces would displace
  /// messages from the filter, messages are requested separately. Announces are then requested rarely, because flooding
  /// delivers them and answers include those of message senders.
  ///
  /// - Parameters:
  ///   - round: number of earlier requests to this neighbour.
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

  /// Whether the packets certainly exceed one filter.
  private func isOverfull(_ types: SyncTypes, at time: UInt64) -> Bool {
    let others = types.contains(.message) ? messages.count : 0
    guard others <= SyncFilter.mostUsual, others + announces.count > SyncFilter.mostUsual else {
      return others > SyncFilter.mostUsual
    }
    return others + announces.values.count { $0.isYounger(than: Self.announceMilliseconds, at: time) }
      > SyncFilter.mostUsual
  }

  /// Request with a filter of the packets that this node has. If they exceed one filter, it holds the newest, and the
  /// request asks for nothing older.
  ///
  /// - Parameters:
  ///   - isBare: whether the request consists of a short filter alone.
  ///   - time: milliseconds since 1970, by this node's clock.
  func request(for types: SyncTypes, isBare: Bool = false, at time: UInt64) -> SyncRequest? {
    // A filter holds at most the newest `mostUsual` of each kind; one more item shows that there are more.
    let most = SyncFilter.mostUsual + 1
    // Messages are already sorted; the others are merged.
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
    if isBare { return try? SyncRequest(filter: SyncFilter(hashes: hashes, bytes: SyncFilter.bareBytes)) }
    let filter = SyncFilter(hashes: hashes)
    // M is the number of IDs in the filter times 2^P.
    let included = Int(filter.m >> UInt32(filter.p))
    var since = included > 0 && included < moments.count ? moments[included - 1].timestamp : nil
    // If the filter ends between fragments with one timestamp, these are not requested: most of them are stored.
    if let oldest = since, moments[included].timestamp == oldest, moments[included].isFragment { since = oldest + 1 }
    return try? SyncRequest(filter: filter, types: types, since: since)
  }

  /// Fields of an item that a request needs. Without the bytes, copying a thousand of them is cheap.
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
  /// Orders by timestamp, then by ID.
  static func isOlder(_ left: Self, _ right: Self) -> Bool {
    (left.timestamp, left.id.high, left.id.low) < (right.timestamp, right.id.high, right.id.low)
  }

  func isYounger(than age: UInt64, at time: UInt64) -> Bool {
    timestamp > time || time - timestamp <= age
  }

  /// Whether receivers still accept the packet: up to 15 min for files and their fragments, 6 h for others.
  func isFresh(at time: UInt64) -> Bool {
    isYounger(than: isFile ? GossipArchive.fileMilliseconds : GossipArchive.messageMilliseconds, at: time)
  }
}
