import Bitchat
import MeshStore

/// What was said, oldest first: public lines, and private messages of both directions. A value.
struct MessageLog: Sendable {
  /// The most messages; for one more another one goes.
  static let limit = 5000
  /// The most bytes of public lines, and of private messages. On a disk there are no more either; without one, and where public
  /// lines do not touch it, nothing else bounds them.
  static let lineBytes = 4 << 20
  static let privateBytes = 16 << 20

  /// What a peer calls a private message of its own.
  struct Received: Hashable, Sendable {
    let peer: PeerID
    let id: Bitchat.MessageID
  }

  private(set) var messages: [MeshMessage] = []
  private var places: [Received: UInt32] = [:]
  private var packets: Set<PacketID> = []
  /// How many public lines, and how many private messages, are from whom.
  private var lines = Shares()
  private var privateMessages = Shares()
  private(set) var nextNumber: UInt32 = 1
  /// How many messages of others were not seen.
  private(set) var unread = 0

  /// - Parameter highest: the highest number that was given before.
  init(after highest: UInt32 = 0) { nextNumber = highest &+ 1 }

  /// Takes over what an earlier run has kept.
  ///
  /// - Parameter highest: the highest number that was ever given.
  mutating func restore(_ kept: [MeshMessage], highest: UInt32) {
    for message in kept.sorted(by: { $0.number < $1.number }) { append(message) }
    nextNumber = max(nextNumber, highest &+ 1)
  }

  /// A number that no message has had.
  mutating func takeNumber() -> UInt32 {
    defer { nextNumber &+= 1 }
    return nextNumber
  }

  /// Adds a message.
  ///
  /// - Returns: the numbers of those that had to go for it.
  @discardableResult
  mutating func append(_ message: MeshMessage) -> [UInt32] {
    var gone: [UInt32] = []
    if messages.count >= Self.limit { gone.append(makeRoom(ofPublic: lines.total.count > 0)) }
    let isPublic = message.conversation == nil
    let room = Self.byteLimit(isPublic) - message.bytes
    while shares(isPublic).total.bytes > max(room, 0) { gone.append(makeRoom(ofPublic: isPublic)) }
    messages.append(message)
    if isPublic {
      lines.add(from: message.origin, via: message.via, bytes: message.bytes)
    } else {
      privateMessages.add(from: message.origin, bytes: message.bytes)
    }
    nextNumber = max(nextNumber, message.number &+ 1)
    if message.state == .unread { unread += 1 }
    if let packet = message.packet { packets.insert(packet) }
    for id in message.messageIDs { places[Received(peer: message.sender, id: id)] = message.number }
    return gone
  }

  private static func byteLimit(_ isPublic: Bool) -> Int { isPublic ? lineBytes : privateBytes }

  private func shares(_ isPublic: Bool) -> Shares { isPublic ? lines : privateMessages }

  /// Where there are too many messages a public line goes before a private one, whose sender was told that it is here; of either kind,
  /// the oldest one of those who have more than a quarter of it goes first.
  ///
  /// - Returns: the number of the one that went.
  private mutating func makeRoom(ofPublic isPublic: Bool) -> UInt32 {
    let shares = shares(isPublic)
    let first = shares.firstToGo(within: (shares.total.count, Self.byteLimit(isPublic)))
    let place = messages.firstIndex { ($0.conversation == nil) == isPublic && first.contains($0.origin, via: $0.via) }
    let gone = messages.remove(at: place ?? messages.startIndex)
    forget(gone)
    return gone.number
  }

  subscript(number: UInt32) -> MeshMessage? { place(of: number).map { messages[$0] } }

  func has(_ packet: PacketID) -> Bool { packets.contains(packet) }

  /// The private message that a peer calls so; nil if there is none.
  func number(of id: Bitchat.MessageID, from peer: PeerID) -> UInt32? { places[Received(peer: peer, id: id)] }

  /// Messages after a number, oldest first.
  func list(after number: UInt32, limit: Int) -> ArraySlice<MeshMessage> {
    let start = messages.partitioningIndex { $0.number > number }
    return messages[start...].prefix(limit)
  }

  /// A message of this node has come so far.
  ///
  /// - Returns: the message, if that is news.
  mutating func note(_ state: MeshMessage.State, of number: UInt32) -> MeshMessage? {
    guard let place = place(of: number), messages[place].state != state else { return nil }
    messages[place].state = state
    return messages[place]
  }

  /// A message was said at another time than this machine's clock had it.
  ///
  /// - Returns: the message; nil if there is no such message.
  mutating func date(_ number: UInt32, _ time: UInt64) -> MeshMessage? {
    guard let place = place(of: number) else { return nil }
    messages[place].time = time
    return messages[place]
  }

  /// A message was seen, and the earlier ones of its conversation with it.
  ///
  /// - Returns: those that were not seen before; nil if there is no such message.
  mutating func markSeen(_ number: UInt32) -> [MeshMessage]? {
    guard let place = place(of: number) else { return nil }
    let conversation = messages[place].conversation
    var seen: [MeshMessage] = []
    for index in messages.indices[...place]
    where messages[index].state == .unread && messages[index].conversation == conversation {
      messages[index].state = .seen
      messages[index].isReceiptOwed = conversation != nil
      seen.append(messages[index])
    }
    unread -= seen.count
    return seen
  }

  /// What a peer said counts as seen, and its sender is not told.
  ///
  /// - Returns: the messages that were not seen before.
  mutating func markAllSeen(from peer: PeerID) -> [MeshMessage] {
    var seen: [MeshMessage] = []
    for index in messages.indices where messages[index].state == .unread && messages[index].sender == peer {
      messages[index].state = .seen
      seen.append(messages[index])
    }
    unread -= seen.count
    return seen
  }

  /// The sender of a message knows that it was read.
  ///
  /// - Returns: the message, if that is news.
  mutating func settleReceipt(for id: Bitchat.MessageID, from peer: PeerID) -> MeshMessage? {
    guard let number = number(of: id, from: peer), let place = place(of: number), messages[place].isReceiptOwed else {
      return nil
    }
    messages[place].isReceiptOwed = false
    return messages[place]
  }

  /// These messages are not kept any longer.
  mutating func remove(_ numbers: [UInt32]) {
    let gone = Set(numbers)
    for message in messages where gone.contains(message.number) { forget(message) }
    messages.removeAll { gone.contains($0.number) }
  }

  private func place(of number: UInt32) -> Int? {
    let place = messages.partitioningIndex { $0.number >= number }
    return place < messages.endIndex && messages[place].number == number ? place : nil
  }

  private mutating func forget(_ message: MeshMessage) {
    if message.conversation == nil {
      lines.remove(from: message.origin, via: message.via, bytes: message.bytes)
    } else {
      privateMessages.remove(from: message.origin, bytes: message.bytes)
    }
    if message.state == .unread { unread -= 1 }
    if let packet = message.packet { packets.remove(packet) }
    for id in message.messageIDs { places[Received(peer: message.sender, id: id)] = nil }
  }
}

extension MeshMessage {
  /// Of what is said, in UTF-8.
  fileprivate var bytes: Int { text.utf8.count + nickname.utf8.count }
}

extension [MeshMessage] {
  /// The first place whose message meets a condition that all later ones meet as well.
  fileprivate func partitioningIndex(_ condition: (MeshMessage) -> Bool) -> Int {
    var (low, high) = (startIndex, endIndex)
    while low < high {
      let middle = low + (high - low) / 2
      if condition(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
