import Bitchat
import BitchatWire
import Common
import Loop
import MeshStore
import Store

/// Public and private messages: the log, sending, and receipts for stored messages.
@LoopActor
final class MeshMessages {
  private let node: MeshNode
  private let peers: MeshPeers
  private let links: MeshLinks
  /// Notifies observers of each received message, by its number.
  let arrivals = Observers<UInt32>()
  /// Notifies of new delivery states of this node's messages.
  let progress = Observers<(number: UInt32, state: MeshMessage.State)>()
  /// Notifies of this node's messages that go outside of the mesh.
  let uplinked = Observers<UInt32>()

  private(set) var log = MessageLog()
  /// Received private messages that are not stored yet, by their numbers.
  private var unkept: [UInt32: MessageLog.Received] = [:]

  init(_ node: MeshNode, _ peers: MeshPeers, _ links: MeshLinks) {
    (self.node, self.peers, self.links) = (node, peers, links)
  }

  /// Restores the log of an earlier run, and passes the data that the engine needs to it.
  func restore(_ kept: StoredNode, in engine: inout MeshEngine) {
    let (now, time) = (node.now, node.time)
    log.restore(kept.messages, highest: kept.highestNumber)
    for message in kept.messages where message.state == .delivered && !message.messageIDs.isEmpty {
      guard let peer = message.conversation else { continue }
      engine.restore(delivered: message.number, message.messageIDs, to: peer, createdAt: message.time, at: now)
    }
    for message in kept.messages where message.conversation != nil && message.origin != nil {
      for id in message.messageIDs {
        engine.restoreReceived(id, from: message.sender, at: now)
        if message.isReceiptOwed { engine.restoreReceipt(for: id, to: message.sender, at: now) }
      }
    }
    for message in kept.outgoing { _ = try? engine.restore(message, at: now, time: time) }
  }

  /// Drops everything for a wipe. Numbers continue after the highest one.
  func forgetAll(after highest: UInt32) { (log, unkept) = (MessageLog(after: highest), [:]) }

  /// Returns an unused number of a message or file.
  func takeNumber() -> UInt32 { log.takeNumber() }

  /// Number of received messages that are not stored yet.
  var unkeptCount: Int { unkept.count }

  // MARK: Sending

  /// Sends a public message.
  ///
  /// - Parameter then: called when the message is committed to disk, or the store fails, as `reason` then states.
  /// - Returns: the message's number.
  func say(_ text: String, then: @escaping @LoopActor () -> Void = {}) throws(MeshRefusal) -> UInt32 {
    try check(text)
    guard (try? PublicText(text)) != nil else { throw .tooManyCharacters }
    guard !links.areFull else { throw .linksFull }
    guard node.engine?.takeOwnLine(at: node.now) != false else { throw .tooManyPublicMessages }
    guard let said = node.engine?.say(text, at: node.now, time: node.time) else { throw node.notReady() }
    let message = MeshMessage(
      number: log.takeNumber(), time: node.time, conversation: nil, sender: node.ownID, nickname: node.nickname,
      text: text, packet: said.packet, state: .sent)
    add(message)
    node.keep([.message(message)]) { _ in then() }
    node.perform(said.actions)
    return message.number
  }

  /// Sends a private message. It is repeated for a day until the peer acknowledges it.
  ///
  /// - Parameters:
  ///   - name: name of the peer for ``MeshNameIndex/peer(_:)``.
  ///   - then: called when the message is committed to disk, or the store fails.
  /// - Returns: the message's number.
  func tell(
    _ name: String, _ text: String, then: @escaping @LoopActor () -> Void = {}
  ) throws(MeshRefusal) -> UInt32 {
    try check(text)
    guard node.engine != nil else { throw node.notReady() }
    let peer = try peers.peer(called: name)
    guard peer != node.ownID else { throw .ourselves }
    let number = log.takeNumber()
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.TellError) {
      actions = try node.engine?.tell(text, to: peer, as: number, at: node.now, time: node.time) ?? []
    } catch {
      switch error {
      case .tooLong: throw .tooLong
      case .full: throw .tooManyWait
      case .relayOnly: throw .relay
      case .notice: throw .favouriteNotice
      }
    }
    var message = MeshMessage(
      number: number, time: node.time, conversation: peer, sender: node.ownID, nickname: node.nickname, text: text,
      state: .waiting)
    for case .keep(.outgoing(let outgoing)) in actions { message.messageIDs = outgoing.pieces.map(\.id) }
    add(message)
    peers.noteContact(peer, .wasWrittenTo)
    // The message is logged before its progress is reported, and both are stored before the caller gets an answer.
    var progress: [MeshEngine.Action] = []
    var changes: [MeshChange] = [.message(message)]
    for action in actions {
      if case .keep(.outgoing(let outgoing)) = action {
        changes.append(.outgoing(outgoing))
      } else {
        progress.append(action)
      }
    }
    node.keep(changes) { _ in then() }
    node.perform(progress)
    return number
  }

  private func check(_ text: String) throws(MeshRefusal) {
    guard node.settings.role.sends else { throw .relay }
    guard !PastedText.trimmed(text).isEmpty else { throw .empty }
    guard text.utf8.count <= Limits.privateTextBytes else { throw .tooLong }
  }

  /// Handles a new delivery state of a message of this node.
  func progressed(_ number: UInt32, _ state: MessageState) {
    guard let message = log.note(MeshMessage.State(state), of: number) else { return }
    node.keep([.message(message)]) { [weak self] _ in self?.progress.call((number, message.state)) }
  }

  /// Records that the uplink carries a message of this node.
  func wentByUplink(_ number: UInt32) {
    guard let message = log.noteUplink(of: number) else { return }
    node.keep([.message(message)])
    uplinked.call(number)
  }

  /// Corrects the time of a message of this node.
  func dated(_ number: UInt32, _ time: UInt64) {
    if let message = log.date(number, time) { node.keep([.message(message)]) }
  }

  // MARK: Reading

  /// Marks a message, and the earlier ones of its conversation, as seen. Senders of private messages get read receipts.
  ///
  /// - Returns: whether the message exists.
  func markRead(_ number: UInt32) -> Bool {
    guard let seen = log.markSeen(number) else { return false }
    guard !seen.isEmpty else { return true }
    node.keep(seen.map { .message($0) })
    for message in seen where message.conversation != nil {
      for id in message.messageIDs { node.handle(.read(id, from: message.sender)) }
    }
    node.changed()
    return true
  }

  /// Marks the messages of a blocked peer as seen, without receipts.
  func markSeen(from peer: PeerID) {
    let seen = log.markAllSeen(from: peer)
    guard !seen.isEmpty else { return }
    node.keep(seen.map { .message($0) })
    node.changed()
  }

  /// Records that the peer has received the read receipt for its message.
  ///
  /// - Returns: the change to store, if a receipt was due.
  func receiptSettled(_ id: BitchatWire.MessageID, _ peer: PeerID) -> MeshChange? {
    log.settleReceipt(for: id, from: peer).map { .message($0) }
  }

  // MARK: Messages of other peers

  /// Lists a public message that the engine has received, and stores it.
  func heard(_ message: PublicMessage) {
    guard node.settings.role.receives, !log.has(message.packet),
      !node.isErased(message.packet, from: message.timestamp, isLate: message.isLate)
    else { return }
    let line = MeshMessage(
      number: log.takeNumber(), time: message.timestamp, conversation: nil, sender: message.sender,
      nickname: message.nickname, text: message.text, packet: message.packet, state: .unread, via: message.via)
    add(line)
    peers.noteContact(message.sender, .wrotePublicly, nickname: message.nickname)
    node.keep([.message(line)], isUrgent: false) { [weak self] _ in self?.arrived(line.number) }
  }

  /// Handles a private message. Its sender gets a receipt once it is stored.
  func told(_ message: PrivateMessage, from peer: PeerID, at time: UInt64, by way: MeshMessage.Way = .mesh) {
    guard log.number(of: message.id, from: peer) == nil else { return toldAgain(message.id, from: peer) }
    var line = MeshMessage(
      number: log.takeNumber(), time: time, conversation: peer, sender: peer, nickname: peers.name(of: peer),
      text: message.text, messageIDs: [message.id], state: .unread)
    line.way = way
    add(line)
    peers.noteContact(peer, .wrotePrivately)
    unkept[line.number] = MessageLog.Received(peer: peer, id: message.id)
    keepReceived(line, message.id, isNew: true)
  }

  /// Handles a private message that arrived again, because the receipt was lost or waits for the store.
  func toldAgain(_ id: BitchatWire.MessageID, from peer: PeerID) {
    guard !peers.isNoticeUnkept(id, from: peer) else { return }
    guard let number = log.number(of: id, from: peer), let line = log[number] else {
      // The message was known, and was evicted since.
      return node.handle(.kept(id, from: peer))
    }
    if unkept[number] != nil { keepReceived(line, id, isNew: false) } else { node.handle(.kept(id, from: peer)) }
  }

  private func keepReceived(_ line: MeshMessage, _ id: BitchatWire.MessageID, isNew: Bool) {
    node.keep([.message(line)]) { [weak self] error in
      guard let self else { return }
      if error == nil, unkept.removeValue(forKey: line.number) != nil { node.handle(.kept(id, from: line.sender)) }
      // Programs can read a message without a disk; its sender repeats it until it is stored.
      if isNew { arrived(line.number) }
    }
  }

  /// Stores messages again after a recovery of the store, and acknowledges them.
  func acknowledgeUnkept() {
    for (number, received) in unkept.sorted(by: { $0.key < $1.key }) {
      if let line = log[number] { keepReceived(line, received.id, isNew: false) }
    }
  }

  private func arrived(_ number: UInt32) {
    arrivals.call(number)
    node.changed()
  }

  // MARK: Eviction

  /// Adds a message to the log, and evicts others if necessary.
  private func add(_ message: MeshMessage) { disown(log.append(message)) }

  /// Removes messages that the store has evicted or that have expired.
  func removed(_ numbers: [UInt32]) {
    log.remove(numbers)
    disown(numbers)
  }

  /// Releases evicted messages that were never stored. This node has not acknowledged them, so they are reported
  /// again when their senders repeat them.
  private func disown(_ numbers: [UInt32]) {
    guard !unkept.isEmpty else { return }
    for number in numbers {
      if let gone = unkept.removeValue(forKey: number) { node.handle(.notTaken(gone.id, from: gone.peer)) }
    }
  }
}

extension MeshMessage.State {
  fileprivate init(_ state: MessageState) {
    switch state {
    case .waiting: self = .waiting
    case .sent: self = .sent
    case .delivered: self = .delivered
    case .read: self = .read
    case .failed: self = .failed
    }
  }

  /// Name of the state on D-Bus.
  var name: String {
    switch self {
    case .waiting: "waiting"
    case .sent: "sent"
    case .delivered: "delivered"
    case .read: "read"
    case .failed: "failed"
    case .unread: "unread"
    case .seen: "seen"
    }
  }
}
