import Bitchat
import Common
import Journal
import Loop
import MeshNaming
import MeshStore
import Store

/// Public and private messages.
extension MeshService {
  /// Sends a public message.
  ///
  /// - Parameter then: called when the message is committed to disk, or the store fails, as `reason` then states.
  /// - Returns: the message's number.
  public func say(_ text: String, then: @escaping @LoopActor () -> Void = {}) throws(MeshRefusal) -> UInt32 {
    try check(text)
    guard (try? PublicText(text)) != nil else { throw .tooManyCharacters }
    guard !areLinksFull else { throw .linksFull }
    guard engine?.takeOwnLine(at: scheduler.now) != false else { throw .tooManyLines }
    guard let said = engine?.say(text, at: scheduler.now, time: time), let own = engine?.identity.id else {
      throw .notReady(hindrance ?? "The mesh is not ready.")
    }
    let message = MeshMessage(
      number: log.takeNumber(), time: time, conversation: nil, sender: own, nickname: nickname, text: text,
      packet: said.packet, state: .sent)
    add(message)
    keep([.message(message)]) { _ in then() }
    perform(said.actions)
    return message.number
  }

  /// Sends a private message. It is repeated for a day until the peer acknowledges it.
  ///
  /// - Parameters:
  ///   - name: name of the peer for ``MeshNameBook/peer(_:)``.
  ///   - then: called when the message is committed to disk, or the store fails.
  /// - Returns: the message's number.
  public func tell(
    _ name: String, _ text: String, then: @escaping @LoopActor () -> Void = {}
  ) throws(MeshRefusal) -> UInt32 {
    try check(text)
    guard engine != nil else { throw .notReady(hindrance ?? "The mesh is not ready.") }
    let peer = try peer(called: name)
    guard peer != ownID else { throw .ourselves }
    let number = log.takeNumber()
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.TellError) {
      actions = try engine?.tell(text, to: peer, as: number, at: scheduler.now, time: time) ?? []
    } catch {
      switch error {
      case .tooLong: throw .tooLong
      case .full: throw .tooManyWait
      case .relayOnly: throw .relay
      case .notice: throw .favouriteNotice
      }
    }
    var message = MeshMessage(
      number: number, time: time, conversation: peer, sender: ownID, nickname: nickname, text: text, state: .waiting)
    for case .keep(.outgoing(let outgoing)) in actions { message.messageIDs = outgoing.pieces.map(\.id) }
    add(message)
    noteContact(peer, .wasWrittenTo)
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
    keep(changes) { _ in then() }
    perform(progress)
    return number
  }

  /// Marks a message, and the earlier ones of its conversation, as seen. Senders of private messages get read receipts.
  ///
  /// - Returns: whether the message exists.
  public func markRead(_ number: UInt32) -> Bool {
    guard let seen = log.markSeen(number) else { return false }
    guard !seen.isEmpty else { return true }
    keep(seen.map { .message($0) })
    for message in seen where message.conversation != nil {
      for id in message.messageIDs { handle(.read(id, from: message.sender)) }
    }
    changed()
    return true
  }

  var ownID: PeerID { engine?.identity.id ?? PeerID(rawValue: 0) }

  /// Whether no link has buffer space for another message of this node. Neighbours on slow links get the missing ones
  /// by sync.
  private var areLinksFull: Bool {
    let open = ports.values.filter { $0.isOpen && !$0.isCut }
    return !open.isEmpty
      && open.allSatisfy { $0.queue.isOwnFull || engine?.isFullOfFragments($0.id) == true }
  }

  private func check(_ text: String) throws(MeshRefusal) {
    guard settings.role.sends else { throw .relay }
    guard !PastedText.trimmed(text).isEmpty else { throw .empty }
    guard text.utf8.count <= Limits.privateTextBytes else { throw .tooLong }
  }

  // MARK: Messages of other peers

  func heard(_ message: PublicMessage) {
    guard settings.role.receives, !log.has(message.packet), !isErased(message) else { return }
    let line = MeshMessage(
      number: log.takeNumber(), time: message.timestamp, conversation: nil, sender: message.sender,
      nickname: message.nickname, text: message.text, packet: message.packet, state: .unread, via: message.via)
    add(line)
    noteContact(message.sender, .wrotePublicly, nickname: message.nickname)
    keep([.message(line)], isUrgent: false) { [weak self] _ in self?.arrived(line.number) }
  }

  /// Whether a wipe has erased a public message, or the message predates the wipe and was received late.
  private func isErased(_ message: PublicMessage) -> Bool {
    guard let erased else { return false }
    return erased.contains(message.packet) || message.isLate && erased.predatesWipe(message.timestamp)
      || erased.surelyPredatesWipe(message.timestamp)
  }

  /// Handles a private message. Its sender gets a receipt once it is stored.
  func told(_ message: PrivateMessage, from peer: PeerID, at time: UInt64) {
    guard log.number(of: message.id, from: peer) == nil else { return toldAgain(message.id, from: peer) }
    let line = MeshMessage(
      number: log.takeNumber(), time: time, conversation: peer, sender: peer, nickname: name(of: peer),
      text: message.text, messageIDs: [message.id], state: .unread)
    add(line)
    noteContact(peer, .wrotePrivately)
    unkept[line.number] = MessageLog.Received(peer: peer, id: message.id)
    keepReceived(line, message.id, isNew: true)
  }

  /// Handles a repeated message, whose receipt was lost or is delayed by the store.
  func toldAgain(_ id: Bitchat.MessageID, from peer: PeerID) {
    guard unkeptNotices[peer]?.contains(id) != true else { return }
    guard let number = log.number(of: id, from: peer), let line = log[number] else {
      // The message was known, and was evicted since.
      return handle(.kept(id, from: peer))
    }
    if unkept[number] != nil { keepReceived(line, id, isNew: false) } else { handle(.kept(id, from: peer)) }
  }

  private func keepReceived(_ line: MeshMessage, _ id: Bitchat.MessageID, isNew: Bool) {
    keep([.message(line)]) { [weak self] error in
      guard let self else { return }
      if error == nil, unkept.removeValue(forKey: line.number) != nil { handle(.kept(id, from: line.sender)) }
      // Programs can read a message without a disk; its sender repeats it until it is stored.
      if isNew { arrived(line.number) }
    }
  }

  /// Stores messages and notices again after a recovery of the store, and acknowledges them.
  func acknowledgeUnkept() {
    for (number, received) in unkept.sorted(by: { $0.key < $1.key }) {
      if let line = log[number] { keepReceived(line, received.id, isNew: false) }
    }
    for (peer, ids) in unkeptNotices {
      for id in ids { keepNotice(id, from: peer) }
    }
  }

  /// Adds a message to the log, and evicts others if necessary.
  private func add(_ message: MeshMessage) { disown(log.append(message)) }

  /// Removes messages that exceeded a limit or expired.
  func removed(_ numbers: [UInt32]) {
    log.remove(numbers)
    disown(numbers)
  }

  /// Releases evicted messages that were never stored. They were not acknowledged, and are reported again when
  /// repeated.
  private func disown(_ numbers: [UInt32]) {
    guard !unkept.isEmpty else { return }
    for number in numbers {
      if let gone = unkept.removeValue(forKey: number) { handle(.notTaken(gone.id, from: gone.peer)) }
    }
  }

  private func arrived(_ number: UInt32) {
    arrivals.call(number)
    changed()
  }

  func progressed(_ number: UInt32, _ state: MessageState) {
    guard let message = log.note(MeshMessage.State(state), of: number) else { return }
    keep([.message(message)]) { [weak self] _ in self?.progress.call((number, message.state)) }
  }

  /// - Parameter isUrgent: whether a commit begins at once. Public messages of others wait for the next commit.
  func keep(
    _ changes: [MeshChange], isUrgent: Bool = true, then: @escaping @LoopActor (StoreError?) -> Void = { _ in }
  ) {
    guard !changes.isEmpty else { return }
    keeper.keep(settings.role.storesMessages ? changes : changes.filter(\.isOfRelay), isUrgent: isUrgent) {
      [weak self] error in
      then(error)
      if error != nil { self?.changed() }
    }
  }
}

extension MeshMessage.State {
  init(_ state: MessageState) {
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

extension MeshChange {
  /// Whether a relay stores the change. A relay stores no messages, but erases what it stored in another role.
  fileprivate var isOfRelay: Bool {
    switch self {
    case .pin, .peer, .forget, .nickname, .settled, .carriedNoMore, .fileGone, .deleted: true
    case .gossip, .message, .outgoing, .carried, .number, .file: false
    }
  }
}
