import Bitchat
import Common
import Journal
import Loop
import MeshNaming
import MeshStore
import Store

/// What is said, to everybody and to one peer.
extension MeshService {
  /// Why something is not said.
  public enum Refusal: CodedError, Equatable {
    case notReady(String)
    case empty
    case tooLong
    case tooManyCharacters
    /// A text does not name one peer.
    case name(MeshNameRefusal)
    case tooManyWait
    case linksFull
    case tooManyLines
    case tooManyPings
    case relay
    case notConfirmed
    case emptyFile
    case fileTooLong
    case otherKind(String)
    case tooManyFiles
    case ourselves
    case favouriteNotice

    public var code: String {
      switch self {
      case .notReady: "NotReady"
      case .empty: "EmptyText"
      case .tooLong, .tooManyCharacters: "TextTooLong"
      case .name(let refusal): refusal.isUnknown ? "UnknownPeer" : "AmbiguousPeer"
      case .tooManyWait: "TooManyWait"
      case .linksFull: "LinksFull"
      case .tooManyLines: "TooManyLines"
      case .tooManyPings: "TooManyPings"
      case .relay: "RelayOnly"
      case .notConfirmed: "NotConfirmed"
      case .emptyFile: "EmptyFile"
      case .fileTooLong: "FileTooLong"
      case .otherKind: "OtherKind"
      case .tooManyFiles: "TooManyFiles"
      case .ourselves: "Ourselves"
      case .favouriteNotice: "FavouriteNotice"
      }
    }

    public var sentence: String {
      switch self {
      case .notReady(let why): why
      case .empty: "There is no text to say."
      case .tooLong: "The text has more than \(Limits.privateTextBytes) bytes."
      case .tooManyCharacters: "What is said to everybody has \(Limits.publicTextCharacters) characters at most."
      case .name(let refusal): refusal.sentence
      case .tooManyWait: "Too much waits to be delivered: 100 messages to one peer, 1,000 in all, or 16 MiB."
      case .linksFull:
        "The links to the neighbours have no room for more messages now, and this one was not sent. Try again in some seconds."
      case .tooManyLines:
        "Neighbours accept \(Limits.publicMessagesPerMinute) public messages a minute from one peer, and this one was not sent. Try again "
          + "in some seconds."
      case .tooManyPings: "\(Limits.waitingPings) pings wait for their answers already."
      case .relay: "This node is a relay (Role=relay in [Mesh]) and has nothing to say."
      case .notConfirmed: "Nothing was erased: confirm it with this node's own peer ID."
      case .emptyFile: "The file is empty."
      case .fileTooLong: "The file has more than \(Limits.fileBytes) bytes."
      case .otherKind(let mime):
        "The file is not what \(mime.isEmpty ? "it seems to be" : PrintableText.clean(mime)) says, or the apps do not take "
          + "this type. They take any file as application/octet-stream."
      case .tooManyFiles: "Eight files are on their way already."
      case .ourselves: "This is the node itself."
      case .favouriteNotice:
        "The apps take a private text that begins with [FAVORITED] or [UNFAVORITED] for a notice, and do not show it. Begin it with "
          + "another character."
      }
    }
  }

  /// Says something to everybody.
  ///
  /// - Parameter then: called when it would survive a loss of power, or the disk is in trouble, which `reason` then says.
  /// - Returns: the message's number.
  public func say(_ text: String, then: @escaping @LoopActor () -> Void = {}) throws(Refusal) -> UInt32 {
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

  /// Says something to one peer. It is sent until the peer has it, for a day.
  ///
  /// - Parameters:
  ///   - name: what names the peer: ``MeshNameBook/peer(_:)``.
  ///   - then: called when it would survive a loss of power, or the disk is in trouble.
  /// - Returns: the message's number.
  public func tell(
    _ name: String, _ text: String, then: @escaping @LoopActor () -> Void = {}
  ) throws(Refusal) -> UInt32 {
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
    // The message stands in the log before its own progress is told, and the disk has both when the caller hears of it.
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

  /// A message was seen, and the earlier ones of its conversation: the senders of private ones are told.
  ///
  /// - Returns: whether there is such a message.
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

  /// Whether no link has room for another message of this node. A neighbour on a slow link gets by sync what that link does not take.
  private var areLinksFull: Bool {
    let open = ports.values.filter { $0.isOpen && !$0.isCut }
    return !open.isEmpty
      && open.allSatisfy { $0.queue.isOwnFull || engine?.isFullOfFragments($0.id) == true }
  }

  private func check(_ text: String) throws(Refusal) {
    guard !isRelay else { throw .relay }
    guard !PastedText.trimmed(text).isEmpty else { throw .empty }
    guard text.utf8.count <= Limits.privateTextBytes else { throw .tooLong }
  }

  // MARK: From others

  func heard(_ message: PublicMessage) {
    guard !isRelay, !log.has(message.packet), !isErased(message) else { return }
    let line = MeshMessage(
      number: log.takeNumber(), time: message.timestamp, conversation: nil, sender: message.sender,
      nickname: message.nickname, text: message.text, packet: message.packet, state: .unread, via: message.via)
    add(line)
    noteContact(message.sender, .wrotePublicly, nickname: message.nickname)
    keep([.message(line)], isUrgent: false) { [weak self] _ in self?.arrived(line.number) }
  }

  /// Whether a wipe has erased a public message, or a neighbour brings it late and it is older than the wipe: it is not new.
  private func isErased(_ message: PublicMessage) -> Bool {
    guard let erased else { return false }
    return erased.contains(message.packet) || message.isLate && erased.predatesWipe(message.timestamp)
      || erased.surelyPredatesWipe(message.timestamp)
  }

  /// Its sender hears that it is here when the disk has it, and not before.
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

  /// It came again: the sender has missed the receipt, or the disk has not taken the message.
  func toldAgain(_ id: Bitchat.MessageID, from peer: PeerID) {
    guard unkeptNotices[peer]?.contains(id) != true else { return }
    guard let number = log.number(of: id, from: peer), let line = log[number] else {
      // It was here, and has been forgotten since for want of room.
      return handle(.kept(id, from: peer))
    }
    if unkept[number] != nil { keepReceived(line, id, isNew: false) } else { handle(.kept(id, from: peer)) }
  }

  private func keepReceived(_ line: MeshMessage, _ id: Bitchat.MessageID, isNew: Bool) {
    keep([.message(line)]) { [weak self] error in
      guard let self else { return }
      if error == nil, unkept.removeValue(forKey: line.number) != nil { handle(.kept(id, from: line.sender)) }
      // Without a disk people can still read it; the sender goes on trying until it is kept.
      if isNew { arrived(line.number) }
    }
  }

  /// The disk takes things again: senders hear of what it has by now, and need not say it again.
  func acknowledgeUnkept() {
    for (number, received) in unkept.sorted(by: { $0.key < $1.key }) {
      if let line = log[number] { keepReceived(line, received.id, isNew: false) }
    }
    for (peer, ids) in unkeptNotices {
      for id in ids { keepNotice(id, from: peer) }
    }
  }

  /// Puts a message into the log, where others may have to go for it.
  private func add(_ message: MeshMessage) { disown(log.append(message)) }

  /// Messages had to go, because they were too many or too old.
  func removed(_ numbers: [UInt32]) {
    log.remove(numbers)
    disown(numbers)
  }

  /// A message that went before the disk had it was never acknowledged, and is not when it comes again: it is told once more then.
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
    keeper.keep(isRelay ? changes.filter(\.isOfRelay) : changes, isUrgent: isUrgent) { [weak self] error in
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

  /// The state's name on the bus.
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
  /// A relay keeps nothing of what is said, and erases what it kept in another role when it is told to.
  fileprivate var isOfRelay: Bool {
    switch self {
    case .pin, .peer, .forget, .nickname, .settled, .carriedNoMore, .fileGone, .deleted: true
    case .gossip, .message, .outgoing, .carried, .number, .file: false
    }
  }
}
