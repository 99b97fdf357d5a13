import BitchatWire
import Common

/// Favourite notices and read receipts that are not known to have arrived.
///
/// A favourite notice is a message, which its recipient acknowledges. A read receipt is not acknowledged. It counts as
/// arrived when a message of the peer is opened at least `proofTime` after it was sent, because both then have the same
/// session. Unconfirmed ones are repeated, also in each new session, unless the user revokes them.
struct OwedNews: Sendable {
  /// Maximum number of peers with waiting notices or receipts.
  static let peerLimit = 1024
  /// Maximum read receipts that wait for one peer; the oldest is dropped first.
  static let receiptsOfPeer = 500
  /// Maximum read receipts that wait for all peers.
  static let receiptLimit = 2000
  /// Time between attempts, which doubles after each attempt, up to `longestPause`.
  static let firstPause = Duration.seconds(15)
  static let longestPause = Duration.seconds(600)
  /// Minimum time between a receipt and the message of the peer that proves its arrival.
  static let proofTime = Duration.seconds(2)

  struct Notice: Hashable, Sendable {
    let id: MessageID
    let isFavourite: Bool
  }

  private struct Receipt: Sendable {
    let id: MessageID
    /// Time of sending in the current session; nil if not sent.
    var sentAt: Instant?
  }

  private struct Entry: Sendable {
    var notice: Notice?
    /// Read receipts that are not known to have arrived, oldest first.
    var receipts: [Receipt] = []
    var nextTry: Instant
    var tries = 0

    var isEmpty: Bool { notice == nil && receipts.isEmpty }
  }

  /// Notice and receipts to send to a peer now.
  struct Due: Sendable {
    let peer: PeerID
    let notice: Notice?
    let receipts: [MessageID]
    /// Number of times that the item was sent in the present session.
    let tries: Int
  }

  private var entries: [PeerID: Entry] = [:]

  var deadline: Instant? { entries.isEmpty ? nil : entries.values.map(\.nextTry).min() }
  var receipts: Int { entries.values.reduce(0) { $0 + $1.receipts.count } }

  /// Sets the favourite notice to deliver to a peer, in place of an earlier one that was not delivered.
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
    // Receipts that were sent before wait for their next try.
    (entry.nextTry, entry.tries) = (now, 0)
    entries[peer] = entry
  }

  /// Makes the notice and all receipts for a peer due, because the peer has returned or has a new session.
  mutating func hurry(_ peer: PeerID, at now: Instant) {
    guard var entry = entries[peer] else { return }
    (entry.nextTry, entry.tries) = (now, 0)
    for place in entry.receipts.indices { entry.receipts[place].sentAt = nil }
    entries[peer] = entry
  }

  /// Takes the notices and receipts to send now.
  ///
  /// - Parameter reach: reachability of a peer.
  /// - Returns: also the peers that need a session.
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

  /// Handles the acknowledgement of a message.
  ///
  /// - Returns: whether the message was a pending notice.
  mutating func acknowledge(_ id: MessageID, from peer: PeerID) -> Bool {
    guard entries[peer]?.notice?.id == id else { return false }
    entries[peer]?.notice = nil
    tidy(peer)
    return true
  }

  /// Handles a decrypted message of a peer, which proves that it has the keys of the session.
  ///
  /// - Returns: the messages whose receipts have arrived.
  mutating func opened(from peer: PeerID, at now: Instant) -> [MessageID] {
    guard let entry = entries[peer], !entry.receipts.isEmpty else { return [] }
    let arrived = entry.receipts.filter { $0.sentAt.map { $0.duration(to: now) >= Self.proofTime } ?? false }.map(\.id)
    entries[peer]?.receipts.removeAll { arrived.contains($0.id) }
    tidy(peer)
    return arrived
  }

  /// Read receipts that wait, by peer.
  var waitingReceipts: [(peer: PeerID, receipts: [MessageID])] {
    entries.filter { !$0.value.receipts.isEmpty }.sorted { $0.key < $1.key }
      .map { ($0.key, $0.value.receipts.map(\.id)) }
  }

  /// Removes a read receipt that is sent another way.
  ///
  /// - Returns: whether it was due.
  mutating func settle(_ id: MessageID, to peer: PeerID) -> Bool {
    guard let place = entries[peer]?.receipts.firstIndex(where: { $0.id == id }) else { return false }
    entries[peer]?.receipts.remove(at: place)
    tidy(peer)
    return true
  }

  mutating func forget(_ peer: PeerID) { entries[peer] = nil }

  private mutating func tidy(_ peer: PeerID) { if entries[peer]?.isEmpty == true { entries[peer] = nil } }
}
