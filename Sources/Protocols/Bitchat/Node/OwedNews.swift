import Common

/// What peers are to know and do not, as far as this node can tell: whether they are favourites, and which of their messages were read.
///
/// A favourite notice is a message, which its recipient acknowledges. Nobody acknowledges a read receipt: it counts as arrived when
/// something of the peer is opened some time after it was sent, for then both have the same session. What has not arrived is sent again,
/// with each new session as well, until it has, or the user decides otherwise.
struct OwedNews: Sendable {
  /// Maximum number of peers, and of read receipts for one of them and for all. The oldest goes first.
  static let peerLimit = 1024
  static let receiptsOfPeer = 500
  static let receiptLimit = 2000
  /// From one try to the next; then twice as long, and so on.
  static let firstPause = Duration.seconds(15)
  static let longestPause = Duration.seconds(600)
  /// From the sending of a receipt until something of the peer shows that it has arrived.
  static let proofTime = Duration.seconds(2)

  struct Notice: Hashable, Sendable {
    let id: MessageID
    let isFavourite: Bool
  }

  private struct Receipt: Sendable {
    let id: MessageID
    /// When it was sent in the present session; nil where it was not.
    var sentAt: Instant?
  }

  private struct Entry: Sendable {
    var notice: Notice?
    /// The oldest first.
    var receipts: [Receipt] = []
    var nextTry: Instant
    var tries = 0

    var isEmpty: Bool { notice == nil && receipts.isEmpty }
  }

  /// What goes to a peer now.
  struct Due: Sendable {
    let peer: PeerID
    let notice: Notice?
    let receipts: [MessageID]
    /// How often it was sent before in this session.
    let tries: Int
  }

  private var entries: [PeerID: Entry] = [:]

  var deadline: Instant? { entries.isEmpty ? nil : entries.values.map(\.nextTry).min() }
  var receipts: Int { entries.values.reduce(0) { $0 + $1.receipts.count } }

  /// A notice supersedes the one before it.
  mutating func owe(_ notice: Notice, to peer: PeerID, at now: Instant) {
    guard entries[peer] != nil || entries.count < Self.peerLimit else { return }
    entries[peer, default: Entry(nextTry: now)].notice = notice
    hurry(peer, at: now)
  }

  mutating func oweReceipt(for id: MessageID, to peer: PeerID, at now: Instant) {
    guard entries[peer] != nil || entries.count < Self.peerLimit, receipts < Self.receiptLimit else { return }
    var entry = entries[peer] ?? Entry(nextTry: now)
    guard !entry.receipts.contains(where: { $0.id == id }) else { return }
    entry.receipts.append(Receipt(id: id))
    if entry.receipts.count > Self.receiptsOfPeer { entry.receipts.removeFirst() }
    // What was sent before waits for its time.
    (entry.nextTry, entry.tries) = (now, 0)
    entries[peer] = entry
  }

  /// The peer is back, or there is a new session with it.
  mutating func hurry(_ peer: PeerID, at now: Instant) {
    guard var entry = entries[peer] else { return }
    (entry.nextTry, entry.tries) = (now, 0)
    for place in entry.receipts.indices { entry.receipts[place].sentAt = nil }
    entries[peer] = entry
  }

  /// What is to be sent now.
  ///
  /// - Parameter reach: how a peer can be sent something.
  /// - Returns: with it, the peers that a session is needed with.
  mutating func takeDue(at now: Instant, reach: (PeerID) -> Outbox.Reach) -> (due: [Due], wanted: [PeerID]) {
    var (due, wanted): ([Due], [PeerID]) = ([], [])
    for (peer, entry) in entries.sorted(by: { $0.key < $1.key }) where entry.nextTry <= now {
      var entry = entry
      let pause = min(Self.firstPause * (1 << min(entry.tries, 6)), Self.longestPause)
      entry.nextTry = now.advanced(by: pause)
      switch reach(peer) {
      case .session:
        let receipts = entry.receipts.filter { entry.tries > 0 || $0.sentAt == nil }.map(\.id)
        due.append(Due(peer: peer, notice: entry.notice, receipts: receipts, tries: entry.tries))
        for place in entry.receipts.indices { entry.receipts[place].sentAt = entry.receipts[place].sentAt ?? now }
        entry.tries += 1
      case .near: wanted.append(peer)
      case .cutOff, .away: entry.nextTry = now.advanced(by: Self.longestPause)
      }
      entries[peer] = entry
    }
    return (due, wanted)
  }

  /// The peer has acknowledged a message.
  ///
  /// - Returns: whether it was a notice that is owed.
  mutating func acknowledge(_ id: MessageID, from peer: PeerID) -> Bool {
    guard entries[peer]?.notice?.id == id else { return false }
    entries[peer]?.notice = nil
    tidy(peer)
    return true
  }

  /// Something of the peer was opened: it has the keys of the session.
  ///
  /// - Returns: the messages whose receipts have arrived.
  mutating func opened(from peer: PeerID, at now: Instant) -> [MessageID] {
    guard let entry = entries[peer], !entry.receipts.isEmpty else { return [] }
    let arrived = entry.receipts.filter { $0.sentAt.map { $0.duration(to: now) >= Self.proofTime } ?? false }.map(\.id)
    entries[peer]?.receipts.removeAll { arrived.contains($0.id) }
    tidy(peer)
    return arrived
  }

  mutating func forget(_ peer: PeerID) { entries[peer] = nil }

  private mutating func tidy(_ peer: PeerID) { if entries[peer]?.isEmpty == true { entries[peer] = nil } }
}
