import BitchatWire
import Common
import Crypto

/// Undelivered private messages of this node. Each is repeated until the peer acknowledges it, and soon if the peer
/// acknowledges a later one. Facts: bitchat.md sections 8.4 and 16, row 20.
public struct Outbox: Sendable {
  static let limit = 1000
  static let peerLimit = 100
  /// Maximum UTF-8 bytes of all waiting texts.
  static let byteLimit = 16 << 20
  static let lifetime: UInt64 = 24 * 3600 * 1000
  static let tries = 8
  /// Time between attempts, which doubles after each attempt, up to `longestPause`.
  static let firstPause = Duration.seconds(15)
  static let longestPause = Duration.seconds(600)
  /// Time until the next attempt after the peer has acknowledged a later message, because the earlier one was probably
  /// lost. Receipts that arrive out of order differ by less than this time.
  static let overtakenPause = Duration.seconds(2)
  /// Maximum unacknowledged fragments to a peer, which is also the number that a link can queue. Further fragments wait
  /// in order.
  static let window = 64
  /// Fragments sent at once when the window allows it. Nodes accept 200 sealed packets per second and link.
  static let burst = 12
  /// Minimum time between two bursts of fragments to one peer.
  static let burstPause = Duration.milliseconds(100)
  /// Maximum delivered messages that await a read receipt.
  static let deliveredLimit = 1000

  /// Whether, and how, messages can reach a peer now.
  enum Reach: Hashable, Sendable {
    /// This node has a Noise session with the peer.
    case session
    /// The peer is reachable in the mesh, and has no session.
    case near
    /// The peer was active recently, but this node has no link over which to reach it.
    case cutOff
    /// The peer was not active recently, so an attempt would be useless.
    case away
  }

  /// A message with its fragments to be sent now.
  struct Due: Sendable {
    let message: OutgoingMessage
    let pieces: [OutgoingMessage.Piece]
  }

  /// Reason why a message is rejected.
  public enum Refusal: Error, Hashable, Sendable {
    case tooManyForPeer
    case tooMany
  }

  /// Time of a sending, and its position in the order of all sendings.
  private struct Sending: Sendable {
    let at: Instant
    let order: UInt64
  }

  private struct Entry: Sendable {
    var message: OutgoingMessage
    /// Time of the next try, or of the next check while the peer is away.
    var nextTry: Instant
    /// Whether an event of the peer makes the next attempt early. An early attempt is not counted.
    var isHurried = false
    /// When a fragment of the message was last sent; nil before the first attempt.
    var lastSending: Sending?
    /// Whether the message was sent early because the peer acknowledged a later one. This happens once per attempt.
    var wasOvertaken = false
    /// Number of leading fragments that this attempt has sent, or skipped because they were delivered.
    var position = 0
    /// Whether the next fragments wait until earlier ones are acknowledged.
    var waitsForRoom = false
    /// Whether an acknowledgement has made the waiting fragments due.
    var hasRoom = false
    /// Time of the first unanswered attempt to reach the peer; nil while the peer is absent.
    var soughtSince: Instant?
    /// Delivery state that was last reported to the service.
    var told: MessageState
    /// UTF-8 bytes of the text; 0 after delivery.
    var bytes: Int
    /// Time of `add` in this run for a message whose date is not known to be right; otherwise nil.
    var undatedSince: Instant?

    /// Number of fragments that were sent in this attempt and are not acknowledged.
    var underWay: Int { message.pieces.prefix(position).count { !$0.isDelivered } }

    /// Time from this attempt to the next.
    var pause: Duration { min(Outbox.firstPause * (1 << min(max(message.tries, 1) - 1, 6)), Outbox.longestPause) }

    /// Takes the next fragments, at most `room` of them.
    mutating func take(room: Int) -> [OutgoingMessage.Piece] {
      var taken: [OutgoingMessage.Piece] = []
      while position < message.pieces.count, taken.count < room {
        if !message.pieces[position].isDelivered { taken.append(message.pieces[position]) }
        position += 1
      }
      waitsForRoom = message.pieces[position...].contains { !$0.isDelivered }
      return taken
    }

    /// Whether the message has exceeded its lifetime.
    func isOld(at now: Instant, time: UInt64) -> Bool {
      if let undatedSince { return undatedSince.duration(to: now) > .milliseconds(Outbox.lifetime) }
      return time > message.createdAt && time - message.createdAt > Outbox.lifetime
    }

    /// Whether a fragment of the message `later` was sent after a fragment of this message that is still
    /// unacknowledged.
    func isOvertaken(by piece: MessageID, of later: Entry) -> Bool {
      guard message.peer == later.message.peer, let lastSending, let latest = later.lastSending else { return false }
      guard message.number != later.message.number else {
        return message.pieces.prefix { $0.id != piece }.contains { !$0.isDelivered }
      }
      return lastSending.order < latest.order
    }
  }

  private var entries: [UInt32: Entry] = [:]
  /// Number of the message to which each fragment belongs, by the ID of the fragment.
  private var pieces: [MessageID: UInt32] = [:]
  /// Numbers of delivered messages that await a read receipt, oldest first.
  private var delivered: [UInt32] = []
  private var sendings: UInt64 = 0

  var waiting: Int { entries.count - delivered.count }
  /// UTF-8 bytes of all stored texts.
  var bytes: Int { entries.values.reduce(0) { $0 + $1.bytes } }

  /// Peers to which undelivered messages are addressed.
  var peers: Set<PeerID> { Set(undelivered.map(\.message.peer)) }

  /// Next time at which `takeDue` has work; nil if there is none.
  var deadline: Instant? { entries.isEmpty ? nil : undelivered.map(\.nextTry).min() }

  private var undelivered: some Sequence<Entry> {
    entries.values.lazy.filter { $0.told != .delivered && $0.told != .read }
  }

  mutating func add(_ message: OutgoingMessage, at now: Instant) throws(Refusal) {
    let size = message.pieces.reduce(0) { $0 + $1.text.utf8.count }
    guard waiting < Self.limit, bytes + size <= Self.byteLimit else { throw .tooMany }
    guard undelivered.count(where: { $0.message.peer == message.peer }) < Self.peerLimit else { throw .tooManyForPeer }
    entries[message.number] = Entry(
      message: message, nextTry: now, told: message.state, bytes: size, undatedSince: message.isDated ? nil : now)
    for piece in message.pieces { pieces[piece.id] = message.number }
  }

  /// Restores a delivered message that may still be read by the peer.
  mutating func add(delivered message: OutgoingMessage, at now: Instant) {
    guard entries[message.number] == nil else { return }
    entries[message.number] = Entry(message: message, nextTry: now, told: .delivered, bytes: 0)
    for piece in message.pieces { pieces[piece.id] = message.number }
    delivered.append(message.number)
    if delivered.count > Self.deliveredLimit { remove(delivered.removeFirst()) }
  }

  /// Sets the dates of messages that were added before the clock was trusted.
  ///
  /// - Returns: the messages whose date has changed.
  mutating func date(at now: Instant, time: UInt64) -> [OutgoingMessage] {
    entries.keys.sorted().compactMap { number in
      guard let entry = entries[number], let since = entry.undatedSince else { return nil }
      let age = UInt64(since.duration(to: now) / .milliseconds(1))
      entries[number]?.message.createdAt = time - min(age, time)
      entries[number]?.message.isDated = true
      entries[number]?.undatedSince = nil
      return entries[number]?.message
    }
  }

  /// Makes all undelivered messages to a peer due, after a new session, a new link, or the peer's return.
  mutating func hurry(_ peer: PeerID, at now: Instant) {
    for (number, entry) in entries where entry.message.peer == peer && entry.told != .delivered {
      entries[number]?.nextTry = now
      entries[number]?.isHurried = true
      entries[number]?.wasOvertaken = false
      entries[number]?.position = 0
      entries[number]?.hasRoom = false
    }
  }

  /// Makes waiting fragments due after an acknowledgement, once a quarter of the window is free.
  private mutating func makeRoom(for peer: PeerID, at now: Instant) {
    guard undelivered.contains(where: { $0.message.peer == peer && $0.waitsForRoom }) else { return }
    guard piecesUnderWay(to: peer) <= Self.window * 3 / 4 else { return }
    for (number, entry) in entries where entry.message.peer == peer && entry.waitsForRoom {
      entries[number]?.nextTry = max(now, entry.lastSending?.at.advanced(by: Self.burstPause) ?? now)
      entries[number]?.hasRoom = true
    }
  }

  private func piecesUnderWay(to peer: PeerID) -> Int {
    undelivered.reduce(0) { $0 + ($1.message.peer == peer ? $1.underWay : 0) }
  }

  /// Makes earlier unacknowledged messages due soon after the peer has acknowledged a later fragment.
  private mutating func hurryOvertaken(by piece: MessageID, of acknowledged: Entry, at now: Instant) {
    let overtaken = undelivered.filter { !$0.wasOvertaken && $0.isOvertaken(by: piece, of: acknowledged) }
    for entry in overtaken {
      let due = max(now, (entry.lastSending?.at ?? now).advanced(by: Self.overtakenPause))
      guard due < entry.nextTry else { continue }
      entries[entry.message.number]?.nextTry = due
      entries[entry.message.number]?.hasRoom = false
      entries[entry.message.number]?.isHurried = true
      entries[entry.message.number]?.wasOvertaken = true
    }
  }

  /// Takes the fragments that are to be sent now, in order per message, and the messages that have failed.
  ///
  /// - Parameters:
  ///   - time: milliseconds since 1970.
  ///   - reach: reachability of a peer.
  /// - Returns: also the peers that need a session, those that have not acknowledged an earlier attempt, and whether a
  ///   message could not be sent because this node has no link.
  mutating func takeDue(
    at now: Instant, time: UInt64, reach: (PeerID) -> Reach
  ) -> (due: [Due], wanted: Set<PeerID>, unanswered: Set<PeerID>, isCutOff: Bool, failed: [UInt32]) {
    var due: [Due] = []
    var isCutOff = false
    var (wanted, unanswered): (Set<PeerID>, Set<PeerID>) = ([], [])
    var failed: [UInt32] = []
    // Peers with an earlier message whose fragments wait: later messages do not overtake it.
    var held: Set<PeerID> = []
    for number in entries.keys.sorted() {
      guard var entry = entries[number], entry.told != .delivered, entry.told != .read else { continue }
      let isOld = entry.isOld(at: now, time: time)
      guard entry.nextTry <= now else {
        if entry.waitsForRoom { held.insert(entry.message.peer) }
        if isOld { failed.append(number) }
        continue
      }
      guard !isOld, entry.isHurried || entry.message.tries < Self.tries else {
        failed.append(number)
        continue
      }
      let reach = reach(entry.message.peer)
      entry.soughtSince = reach == .away ? nil : entry.soughtSince ?? now
      switch reach {
      case .session:
        let isGoingOn = entry.hasRoom && entry.message.tries > 0
        if !entry.hasRoom { entry.position = 0 }
        entry.hasRoom = false
        entries[number] = entry
        let free = Self.window - piecesUnderWay(to: entry.message.peer)
        let room = held.contains(entry.message.peer) ? 0 : isGoingOn ? min(free, Self.burst) : free
        let pieces = entry.take(room: room)
        if entry.waitsForRoom { held.insert(entry.message.peer) }
        guard !pieces.isEmpty else {
          // Continues when the peer acknowledges sent fragments, or when these are repeated.
          entry.nextTry = now.advanced(by: Self.firstPause)
          break
        }
        guard !isGoingOn else {
          sendings += 1
          entry.lastSending = Sending(at: now, order: sendings)
          entry.nextTry = now.advanced(by: entry.pause)
          due.append(Due(message: entry.message, pieces: pieces))
          break
        }
        // A session in which later messages are acknowledged is sound.
        if !entry.isHurried, !entry.wasOvertaken, entry.message.tries > 0 { unanswered.insert(entry.message.peer) }
        if !entry.isHurried || entry.message.tries == 0 {
          entry.message.tries += 1
          entry.wasOvertaken = false
        }
        sendings += 1
        entry.lastSending = Sending(at: now, order: sendings)
        entry.isHurried = false
        entry.nextTry = now.advanced(by: entry.pause)
        due.append(Due(message: entry.message, pieces: pieces))
      case .near:
        // A new session makes the message due; otherwise the session is requested again.
        entry.nextTry = now.advanced(by: Self.firstPause)
        wanted.insert(entry.message.peer)
      case .cutOff:
        entry.nextTry = now.advanced(by: Self.firstPause)
        isCutOff = true
      case .away:
        // The message is due when the peer returns, and is checked at intervals because it may expire.
        entry.nextTry = now.advanced(by: Self.longestPause)
      }
      entries[number] = entry
    }
    for number in failed { remove(number) }
    return (due, wanted, unanswered, isCutOff, failed)
  }

  /// Records that the peer has received or read a fragment.
  ///
  /// - Returns: the message, if its state has changed.
  mutating func acknowledge(
    _ id: MessageID, from peer: PeerID, isRead: Bool, at now: Instant
  ) -> OutgoingMessage? {
    guard let number = pieces[id], var entry = entries[number], entry.message.peer == peer else { return nil }
    for index in entry.message.pieces.indices where entry.message.pieces[index].id == id {
      entry.message.pieces[index].isDelivered = true
      if isRead { entry.message.pieces[index].isRead = true }
    }
    let before = entry.told
    entry.told = told(entry)
    entry.soughtSince = nil
    // The remaining fragments are on their way.
    if !entry.isHurried { entry.nextTry = max(entry.nextTry, now.advanced(by: entry.pause)) }
    entries[number] = entry
    makeRoom(for: peer, at: now)
    hurryOvertaken(by: id, of: entry, at: now)
    guard entry.told != before else { return nil }
    if entry.told == .read {
      delivered.removeAll { $0 == number }
      remove(number)
    } else if entry.told == .delivered {
      delivered.append(number)
      dropText(number)
      if delivered.count > Self.deliveredLimit { remove(delivered.removeFirst()) }
    }
    return entry.message
  }

  /// Drops the text of a delivered message. The entry stays for the read receipt.
  private mutating func dropText(_ number: UInt32) {
    guard let pieces = entries[number]?.message.pieces else { return }
    entries[number]?.bytes = 0
    entries[number]?.message.pieces = pieces.map {
      OutgoingMessage.Piece(id: $0.id, text: "", isDelivered: $0.isDelivered, isRead: $0.isRead)
    }
  }

  /// Whether the peer has not answered an earlier attempt of a waiting message for at least `firstPause`.
  func isUnanswered(by peer: PeerID, at now: Instant) -> Bool {
    undelivered.contains { entry in
      entry.message.peer == peer && entry.soughtSince.map { $0.duration(to: now) >= Self.firstPause } ?? false
    }
  }

  /// Records that a message was sent.
  ///
  /// - Returns: its state, if it differs from the reported one.
  mutating func sent(_ number: UInt32) -> MessageState? {
    guard var entry = entries[number] else { return nil }
    let before = entry.told
    entry.told = told(entry)
    entries[number] = entry
    return entry.told == before ? nil : entry.told
  }

  /// Undelivered messages without a path to their peers, sorted by number.
  ///
  /// - Parameter hasNoPath: decides by the message and the time since which its peer has been tried.
  func stranded(where hasNoPath: (OutgoingMessage, Instant?) -> Bool) -> [OutgoingMessage] {
    undelivered.filter { hasNoPath($0.message, $0.soughtSince) }.map(\.message).sorted { $0.number < $1.number }
  }

  /// Records that couriers carry a message.
  ///
  /// - Returns: the message, and its state if it differs from the reported one.
  mutating func deposited(
    _ number: UInt32, with couriers: [PeerID], key: X25519.PublicKey
  ) -> (message: OutgoingMessage, state: MessageState?)? {
    guard entries[number] != nil else { return nil }
    entries[number]?.message.couriers += couriers
    entries[number]?.message.noiseKey = key
    let state = sent(number)
    return entries[number].map { ($0.message, state) }
  }

  /// Whether a fragment belongs to a message that is not delivered yet.
  func isWaiting(_ piece: MessageID) -> Bool {
    guard let entry = pieces[piece].flatMap({ entries[$0] }) else { return false }
    return entry.message.pieces.contains { $0.id == piece && !$0.isDelivered }
  }

  /// Records that the uplink carries a fragment, as if it was sent.
  ///
  /// - Returns: the message, and its state if it differs from the reported one; nil if it no longer waits.
  mutating func uplinked(_ piece: MessageID, to peer: PeerID) -> (message: OutgoingMessage, state: MessageState?)? {
    guard isWaiting(piece), let number = pieces[piece], entries[number]?.message.peer == peer else { return nil }
    if entries[number]?.message.tries == 0 { entries[number]?.message.tries = 1 }
    let state = sent(number)
    return entries[number].map { ($0.message, state) }
  }

  /// Removes the messages to a peer.
  ///
  /// - Returns: their numbers, and those of the unacknowledged ones.
  mutating func forget(_ peer: PeerID) -> (all: [UInt32], undelivered: [UInt32]) {
    let undelivered = undelivered.filter { $0.message.peer == peer }.map(\.message.number).sorted()
    let all = entries.filter { $0.value.message.peer == peer }.map(\.key).sorted()
    delivered.removeAll { all.contains($0) }
    for number in all { remove(number) }
    return (all, undelivered)
  }

  private func told(_ entry: Entry) -> MessageState { entry.message.state }

  private mutating func remove(_ number: UInt32) {
    guard let entry = entries.removeValue(forKey: number) else { return }
    for piece in entry.message.pieces { pieces[piece.id] = nil }
  }
}
