import Common
import Crypto

/// Private messages of this node that are not delivered yet: each is sent again until the peer says that it has it, and soon where
/// the peer has one that was sent later. Facts: bitchat.md sections 8.4 and 16, row 20.
public struct Outbox: Sendable {
  static let limit = 1000
  static let peerLimit = 100
  /// Bytes of UTF-8 of all texts that wait.
  static let byteLimit = 16 << 20
  static let lifetime: UInt64 = 24 * 3600 * 1000
  static let tries = 8
  /// From a try to the next one, the second time twice as long, and so on.
  static let firstPause = Duration.seconds(15)
  static let longestPause = Duration.seconds(600)
  /// From a try to the next one where the peer has acknowledged what was sent later: most likely the try was lost. Receipts overtake
  /// each other by less.
  static let overtakenPause = Duration.seconds(2)
  /// Pieces on their way to a peer that it has not acknowledged. The others wait, in their order: a link holds no more of them.
  static let window = 64
  /// Pieces that follow at once when there is room, and from these to the next ones: nodes take 200 sealed packets a second over a link.
  static let burst = 12
  static let burstPause = Duration.milliseconds(100)
  /// Delivered messages whose reading is still awaited.
  static let deliveredLimit = 1000

  /// How a peer can be sent something.
  enum Reach: Hashable, Sendable {
    /// There is a session with it.
    case session
    /// It is in the mesh, and a session has to be made.
    case near
    /// It was heard lately, and there is no link at all now.
    case cutOff
    /// It was not heard lately. A try would be for nothing.
    case away
  }

  /// What is to be sent of a message now.
  struct Due: Sendable {
    let message: OutgoingMessage
    let pieces: [OutgoingMessage.Piece]
  }

  /// Why a message is not taken.
  public enum Refusal: Error, Hashable, Sendable {
    case tooManyForPeer
    case tooMany
  }

  /// When something was sent last, and what was sent before and after it.
  private struct Sending: Sendable {
    let at: Instant
    let order: UInt64
  }

  private struct Entry: Sendable {
    var message: OutgoingMessage
    /// When it is sent again, or while the peer is away, when it is looked at again.
    var nextTry: Instant
    /// Whether the next try comes early, because of something that happened to the peer. It is not counted.
    var isHurried = false
    /// Nil before the first try.
    var lastSending: Sending?
    /// Whether the peer has acknowledged what was sent later, and this one was hurried for that. Once is enough for each try.
    var wasOvertaken = false
    /// How many pieces, from the first one on, went out in this try.
    var position = 0
    /// Whether pieces wait until the peer has acknowledged others.
    var waitsForRoom = false
    /// Whether there is room for them now.
    var hasRoom = false
    /// Since when the peer is tried, and has not answered; nil while it is away.
    var soughtSince: Instant?
    /// What the service was told.
    var told: MessageState
    /// Of its text, in UTF-8; 0 once the peer has it.
    var bytes: Int
    /// When it was taken, or taken over from an earlier run, where it has no date that is known to be right.
    var undatedSince: Instant?

    /// Pieces on their way.
    var underWay: Int { message.pieces.prefix(position).count { !$0.isDelivered } }

    /// From this try to the next one.
    var pause: Duration { min(Outbox.firstPause * (1 << min(max(message.tries, 1) - 1, 6)), Outbox.longestPause) }

    /// The next pieces, as many as there is room for.
    mutating func take(room: Int) -> [OutgoingMessage.Piece] {
      var taken: [OutgoingMessage.Piece] = []
      while position < message.pieces.count, taken.count < room {
        if !message.pieces[position].isDelivered { taken.append(message.pieces[position]) }
        position += 1
      }
      waitsForRoom = message.pieces[position...].contains { !$0.isDelivered }
      return taken
    }

    /// Whether it is given up.
    func isOld(at now: Instant, time: UInt64) -> Bool {
      if let undatedSince { return undatedSince.duration(to: now) > .milliseconds(Outbox.lifetime) }
      return time > message.createdAt && time - message.createdAt > Outbox.lifetime
    }

    /// Whether this piece of `later` was sent after something of this message that the peer has not acknowledged.
    func isOvertaken(by piece: MessageID, of later: Entry) -> Bool {
      guard message.peer == later.message.peer, let lastSending, let latest = later.lastSending else { return false }
      guard message.number != later.message.number else {
        return message.pieces.prefix { $0.id != piece }.contains { !$0.isDelivered }
      }
      return lastSending.order < latest.order
    }
  }

  private var entries: [UInt32: Entry] = [:]
  /// Where each piece belongs.
  private var pieces: [MessageID: UInt32] = [:]
  /// Delivered messages, the oldest first.
  private var delivered: [UInt32] = []
  private var sendings: UInt64 = 0

  var waiting: Int { entries.count - delivered.count }
  /// Bytes of UTF-8 of all texts that are held.
  var bytes: Int { entries.values.reduce(0) { $0 + $1.bytes } }

  /// The peers that something waits for.
  var peers: Set<PeerID> { Set(undelivered.map(\.message.peer)) }

  /// When `takeDue` has something to do; nil if nothing is timed.
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

  /// Takes over a message that the peer has, of which it may still be learned that it was read.
  mutating func add(delivered message: OutgoingMessage, at now: Instant) {
    guard entries[message.number] == nil else { return }
    entries[message.number] = Entry(message: message, nextTry: now, told: .delivered, bytes: 0)
    for piece in message.pieces { pieces[piece.id] = message.number }
    delivered.append(message.number)
    if delivered.count > Self.deliveredLimit { remove(delivered.removeFirst()) }
  }

  /// The clock is right from now on: what was taken before gets its date.
  ///
  /// - Returns: the messages that have another date now.
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

  /// There is a new session with the peer, or a new link, or the peer is back: what it has not is due.
  mutating func hurry(_ peer: PeerID, at now: Instant) {
    for (number, entry) in entries where entry.message.peer == peer && entry.told != .delivered {
      entries[number]?.nextTry = now
      entries[number]?.isHurried = true
      entries[number]?.wasOvertaken = false
      entries[number]?.position = 0
      entries[number]?.hasRoom = false
    }
  }

  /// The peer has acknowledged something: what waits for that is due, once there is room for several pieces.
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

  /// The peer has a piece: what was sent to it before, and is not acknowledged, is due soon.
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

  /// The pieces that are to be sent now, each message's in their order, and the messages that are given up.
  ///
  /// - Parameters:
  ///   - time: milliseconds since 1970.
  ///   - reach: how a peer can be sent something.
  /// - Returns: with the messages, the peers that a session is needed with, and those that have not acknowledged an earlier try.
  mutating func takeDue(
    at now: Instant, time: UInt64, reach: (PeerID) -> Reach
  ) -> (due: [Due], wanted: Set<PeerID>, unanswered: Set<PeerID>, failed: [UInt32]) {
    var due: [Due] = []
    var (wanted, unanswered): (Set<PeerID>, Set<PeerID>) = ([], [])
    var failed: [UInt32] = []
    // Peers of which an earlier message has pieces that wait: no later one goes before them.
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
          // It goes on when the peer acknowledges what is on its way, or when that is tried again.
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
        // A session in which later ones are answered is sound.
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
        // A session that comes about makes it due; without one it is asked for again.
        entry.nextTry = now.advanced(by: Self.firstPause)
        wanted.insert(entry.message.peer)
      case .cutOff: entry.nextTry = now.advanced(by: Self.firstPause)
      case .away:
        // It is due when the peer is back; and looked at now and then, for it may become too old.
        entry.nextTry = now.advanced(by: Self.longestPause)
      }
      entries[number] = entry
    }
    for number in failed { remove(number) }
    return (due, wanted, unanswered, failed)
  }

  /// The peer has a piece, or its user has seen it.
  ///
  /// - Returns: the message, if its state has changed by it.
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
    // The rest is on its way.
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

  /// The peer has all of it: what is awaited yet is that its user reads it.
  private mutating func dropText(_ number: UInt32) {
    guard let pieces = entries[number]?.message.pieces else { return }
    entries[number]?.bytes = 0
    entries[number]?.message.pieces = pieces.map {
      OutgoingMessage.Piece(id: $0.id, text: "", isDelivered: $0.isDelivered, isRead: $0.isRead)
    }
  }

  /// Whether something that waits for the peer was tried before, and the peer has not answered.
  func isUnanswered(by peer: PeerID, at now: Instant) -> Bool {
    undelivered.contains { entry in
      entry.message.peer == peer && entry.soughtSince.map { $0.duration(to: now) >= Self.firstPause } ?? false
    }
  }

  /// A message was sent.
  ///
  /// - Returns: its state, if that is another one than the service was told.
  mutating func sent(_ number: UInt32) -> MessageState? {
    guard var entry = entries[number] else { return nil }
    let before = entry.told
    entry.told = told(entry)
    entries[number] = entry
    return entry.told == before ? nil : entry.told
  }

  /// The messages that are not delivered and have no way to their peers, in the order of their numbers.
  ///
  /// - Parameter hasNoPath: gets a message, and since when its peer was tried.
  func stranded(where hasNoPath: (OutgoingMessage, Instant?) -> Bool) -> [OutgoingMessage] {
    undelivered.filter { hasNoPath($0.message, $0.soughtSince) }.map(\.message).sorted { $0.number < $1.number }
  }

  /// Peers carry a message.
  ///
  /// - Returns: the message, and its state if that is another one than the service was told.
  mutating func deposited(
    _ number: UInt32, with couriers: [PeerID], key: X25519.PublicKey
  ) -> (message: OutgoingMessage, state: MessageState?)? {
    guard entries[number] != nil else { return nil }
    entries[number]?.message.couriers += couriers
    entries[number]?.message.noiseKey = key
    let state = sent(number)
    return entries[number].map { ($0.message, state) }
  }

  /// - Returns: the messages to a peer that is forgotten, and of these, those that the peer has not acknowledged.
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
