import Bitchat
import BitchatWire
import MeshStore

/// Log of public and private messages, oldest first.
struct MessageLog: Sendable {
  /// Maximum number of messages; at the limit, another one is evicted.
  static let limit = 5000
  /// Maximum bytes of public messages. The database has the same limit. Without a disk, or without an archive on it,
  /// only this one applies.
  static let lineBytes = 4 << 20
  /// Maximum bytes of private messages. It also equals the limit of the database.
  static let privateBytes = 16 << 20

  /// Sender and ID of a received private message.
  struct Received: Hashable, Sendable {
    let peer: PeerID
    let id: BitchatWire.MessageID
  }

  private(set) var messages: [MeshMessage] = []
  private var places: [Received: UInt32] = [:]
  private var packets: Set<PacketID> = []
  /// How many public messages, and how many bytes of them, each sender has in the log.
  private var lines = Shares()
  /// How many private messages, and how many bytes of them, each sender has in the log.
  private var privateMessages = Shares()
  private(set) var nextNumber: UInt32 = 1
  /// Number of listed messages that no program has marked as seen.
  private(set) var unread = 0

  /// - Parameter highest: highest number used so far.
  init(after highest: UInt32 = 0) { nextNumber = highest &+ 1 }

  /// Restores the messages of an earlier run.
  ///
  /// - Parameter highest: highest number ever used.
  mutating func restore(_ kept: [MeshMessage], highest: UInt32) {
    for message in kept.sorted(by: { $0.number < $1.number }) { append(message) }
    nextNumber = max(nextNumber, highest &+ 1)
  }

  /// Returns the next message number, which no message or file has had before.
  mutating func takeNumber() -> UInt32 {
    defer { nextNumber &+= 1 }
    return nextNumber
  }

  /// Adds a message.
  ///
  /// - Returns: the numbers of the messages evicted for it.
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

  /// Evicts a message. Public messages go first, because the senders of private ones have receipts for them. Within a
  /// kind, the oldest message of the senders that `Shares` selects is evicted.
  ///
  /// - Returns: the number of the evicted message.
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

  /// Number of the private message with this ID of a peer; nil if there is none.
  func number(of id: BitchatWire.MessageID, from peer: PeerID) -> UInt32? { places[Received(peer: peer, id: id)] }

  /// Messages after a number, oldest first.
  func list(after number: UInt32, limit: Int) -> ArraySlice<MeshMessage> {
    let start = messages.partitioningIndex { $0.number > number }
    return messages[start...].prefix(limit)
  }

  /// Sets the state of a message of this node.
  ///
  /// - Returns: the message, if its state has changed.
  mutating func note(_ state: MeshMessage.State, of number: UInt32) -> MeshMessage? {
    guard let place = place(of: number), messages[place].state != state else { return nil }
    messages[place].state = state
    return messages[place]
  }

  /// Records that the uplink carries a message of this node.
  ///
  /// - Returns: the message; nil if it does not exist, or this was recorded before.
  mutating func noteUplink(of number: UInt32) -> MeshMessage? {
    guard let place = place(of: number), messages[place].way != .uplink else { return nil }
    messages[place].way = .uplink
    return messages[place]
  }

  /// Corrects the time of a message.
  ///
  /// - Returns: the message; nil if it does not exist.
  mutating func date(_ number: UInt32, _ time: UInt64) -> MeshMessage? {
    guard let place = place(of: number) else { return nil }
    messages[place].time = time
    return messages[place]
  }

  /// Marks a message, and the earlier ones of its conversation, as seen.
  ///
  /// - Returns: those that were unread; nil if the message does not exist.
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

  /// Marks all messages of a peer as seen, without receipts.
  ///
  /// - Returns: the messages that were unread.
  mutating func markAllSeen(from peer: PeerID) -> [MeshMessage] {
    var seen: [MeshMessage] = []
    for index in messages.indices where messages[index].state == .unread && messages[index].sender == peer {
      messages[index].state = .seen
      seen.append(messages[index])
    }
    unread -= seen.count
    return seen
  }

  /// Records that the sender of a message has received the read receipt.
  ///
  /// - Returns: the message, if a receipt was due.
  mutating func settleReceipt(for id: BitchatWire.MessageID, from peer: PeerID) -> MeshMessage? {
    guard let number = number(of: id, from: peer), let place = place(of: number), messages[place].isReceiptOwed else {
      return nil
    }
    messages[place].isReceiptOwed = false
    return messages[place]
  }

  /// Removes the messages with these numbers from the log.
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
  /// Length of text and nickname in UTF-8.
  fileprivate var bytes: Int { text.utf8.count + nickname.utf8.count }
}

extension [MeshMessage] {
  /// Index of the first message that meets a condition, which all later ones must meet too.
  fileprivate func partitioningIndex(_ condition: (MeshMessage) -> Bool) -> Int {
    var (low, high) = (startIndex, endIndex)
    while low < high {
      let middle = low + (high - low) / 2
      if condition(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
