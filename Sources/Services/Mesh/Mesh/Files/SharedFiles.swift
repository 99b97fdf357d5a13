import Bitchat
import BitchatWire
import Common
import Crypto
import Journal
import Loop
import MeshStore
import Store

/// Public and private files: those that the node sends, receives and stores.
@LoopActor
final class SharedFiles {
  private let node: MeshNode
  private let peers: MeshPeers
  private let messages: MeshMessages
  /// Notifies of added, changed and removed files.
  let changes = Observers<UInt32>()
  /// Notifies of received files that are stored.
  let arrivals = Observers<UInt32>()
  /// Notifies of new states of this node's files.
  let progress = Observers<(number: UInt32, state: String)>()

  private(set) var log = FileLog()
  /// Received files that are not stored yet.
  private var intake = FileIntake()
  /// Files that are arriving, with the number that each of them gets.
  private var incoming = FileArrivals()
  private lazy var intakeTimer = Deadline(node.scheduler) { [weak self] in self?.keepWaitingFiles() }

  init(_ node: MeshNode, _ peers: MeshPeers, _ messages: MeshMessages) {
    (self.node, self.peers, self.messages) = (node, peers, messages)
  }

  func restore(_ kept: StoredNode) {
    for file in kept.files { log.add(file) }
    for file in kept.deletedFiles { log.note(file) }
  }

  /// Removes all files and their numbers, before a wipe.
  func forgetAll() {
    (log, intake, incoming) = (FileLog(), FileIntake(), FileArrivals())
    intakeTimer.set(nil)
  }

  subscript(number: UInt32) -> FileLog.Entry? { log[number] }

  /// Number of received files that are not stored yet.
  var waiting: Int { intake.count }

  /// Number of complete files that were dropped for lack of capacity.
  var lost: UInt64 { intake.lost }

  var tallies: [Tally] { [Tally("TooManyFiles", intake.refused), Tally("FilesNotKept", intake.lost)] }

  // MARK: Files of this node

  /// Sends a file.
  ///
  /// - Parameters:
  ///   - name: file name for the recipients, without folders of a path.
  ///   - mime: MIME type that the apps accept; empty to detect it from the content.
  ///   - peer: name of the peer for ``MeshNameIndex/peer(_:)``; empty for everybody.
  /// - Returns: the file's number.
  func send(
    file content: [UInt8], name: String, mime: String, to peer: String
  ) throws(MeshRefusal) -> UInt32 {
    guard node.settings.role.sends else { throw .relay }
    guard !content.isEmpty else { throw .emptyFile }
    guard content.count <= Limits.fileBytes else { throw .fileTooLong }
    let kind = mime.isEmpty ? FileKind(content: content) : FileKind(mime: mime)
    guard let kind, kind.isKind(of: content) else { throw .otherKind(mime) }
    let recipient = peer.isEmpty ? nil : try peers.peer(called: peer)
    guard recipient == nil || recipient != node.ownID else { throw .ourselves }
    guard node.engine != nil else { throw node.notReady() }
    let plain = FileName.plain(name, kind)
    guard let file = try? SharedFile(name: plain, mime: kind.rawValue, content: content) else { throw .fileTooLong }
    let number = messages.takeNumber()
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.SendError) {
      actions = try node.engine?.send(file, to: recipient, as: number, at: node.now, time: node.time) ?? []
    } catch {
      switch error {
      case .tooMany: throw .tooManyFiles
      case .relayOnly: throw .relay
      }
    }
    let entry = FileLog.Entry(
      number: number, direction: .outgoing, name: plain, mime: kind.rawValue, size: content.count, peer: recipient,
      nickname: "", isPrivate: recipient != nil, time: node.time)
    if let old = log.add(entry) { remove(old) }
    changes.call(number)
    if let recipient { peers.noteContact(recipient, .wasWrittenTo) }
    node.keep([.number(number)])
    node.perform(actions)
    return number
  }

  /// Cancels a file.
  ///
  /// - Returns: whether a file was cancelled.
  func cancel(_ number: UInt32) -> Bool {
    guard log[number]?.isUnderWay == true else { return false }
    node.handle(.cancelFile(number))
    return true
  }

  /// Handles a new state of a file of this node.
  func stateChanged(_ number: UInt32, _ state: FileState) {
    guard log.note(state, of: number) else { return }
    changes.call(number)
    progress.call((number, state.name))
  }

  /// Handles the progress of a file of this node.
  func progressed(_ number: UInt32, percent: Int) {
    log.note(percent: percent, of: number)
    changes.call(number)
  }

  // MARK: All files

  /// Reads the content of a received file, or of one that is being sent.
  func open(_ number: UInt32, then: @escaping @LoopActor (Result<[UInt8], StoreError>) -> Void) {
    if let kept = log[number]?.kept { return node.keeper.content(of: kept, then: then) }
    let content = node.engine?.content(ofFile: number)
    let missing =
      log[number]?.direction == .incoming
      ? "The file is not complete yet." : "The content of sent files is not stored."
    node.scheduler.soon { then(content.map { .success($0) } ?? .failure(StoreError(.missing, missing))) }
  }

  /// Removes a file. Cancels one that is being sent, and withdraws a sent public file.
  ///
  /// - Parameter then: called when the content is erased, or with the error that prevents it.
  func delete(_ number: UInt32, then: @escaping @LoopActor (StoreError?) -> Void) {
    guard let entry = log[number] else { return node.scheduler.soon { then(nil) } }
    if entry.direction == .outgoing { node.handle(.cancelFile(number)) }
    remove(number)
    guard let kept = entry.kept else { return node.scheduler.soon { then(nil) } }
    var changes: [MeshChange] = [.fileGone(number)]
    let deleted = DeletedFile(kept, at: node.time)
    if !deleted.keys.isEmpty {
      log.note(deleted)
      changes.append(.deleted(deleted))
    }
    node.keep(changes, then: then)
  }

  private func remove(_ number: UInt32) {
    log.remove(number)
    changes.call(number)
  }

  /// Removes the files that exceeded a limit or expired.
  func removed(_ numbers: [UInt32]) {
    for number in numbers where log[number]?.direction == .incoming { remove(number) }
  }

  // MARK: Incoming files

  /// Handles a received file. Its sender gets a receipt once it is stored.
  func received(_ file: ReceivedFile) {
    guard node.settings.role.receives else { return }
    if log.knows(file.keys, at: node.time) {
      // The sender did not get the receipt.
      if let receipt = file.receipt { node.handle(.fileKept(receipt, from: file.sender)) }
      return
    }
    if let packet = file.packet, node.isErased(packet, from: file.time) { return }
    let isOfFavourite = peers.marks[file.sender]?.isFavourite == true
    guard intake.take(file, isOfFavourite: isOfFavourite, at: node.now) else { return }
    peers.noteContact(file.sender, file.isPrivate ? .wrotePrivately : .wrotePublicly, nickname: file.nickname)
    incoming.completed(file)
    keepWaitingFiles()
  }

  /// Lists an incoming file from its first progress report on.
  func arriving(_ file: ArrivingFile) {
    guard node.settings.role.receives else { return }
    let number = incoming.number(of: file.id, at: node.now) {
      let number = messages.takeNumber()
      log.add(
        FileLog.Entry(
          number: number, direction: .incoming, name: "", mime: "", size: 0, peer: file.sender,
          nickname: PrintableText.clean(file.nickname, limit: 60), isPrivate: file.isPrivate, time: node.time))
      return number
    }
    guard let number, log[number] != nil else { return }
    progressed(number, percent: file.percent)
  }

  /// Removes an incoming file that did not become complete, or was rejected.
  func arrivalEnded(_ id: FragmentSetID) {
    if let number = incoming.ended(id) { remove(number) }
  }

  /// Removes the incoming files that are not complete, because the node leaves the mesh.
  func endArrivals() {
    for number in incoming.endAll() { remove(number) }
  }

  /// Stores the files that wait, unless the store has just failed.
  private func keepWaitingFiles() {
    while let file = intake.next(at: node.now) { keep(file) }
  }

  private func keep(_ file: ReceivedFile) {
    var random = node.makeRandom()
    let listed = incoming.number(of: file).flatMap { log[$0] == nil ? nil : $0 }
    let kept = MeshFile(
      number: listed ?? messages.takeNumber(), time: file.time, sender: file.sender,
      nickname: PrintableText.clean(file.nickname, limit: 60),
      name: file.name, mime: file.kind.rawValue, size: file.content.count, packet: file.packet, receipt: file.receipt,
      place: random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) })
    node.keeper.keep(kept, content: file.content) { [weak self] error in
      // After a wipe, the file is unknown.
      guard let self, intake.isBeingWritten(file) else { return }
      defer { node.changed() }
      if let error { return notKept(file, error) }
      intake.wrote(file)
      _ = incoming.settled(file)
      log.add(kept)
      if let receipt = file.receipt { node.handle(.fileKept(receipt, from: file.sender)) }
      changes.call(kept.number)
      arrivals.call(kept.number)
      keepWaitingFiles()
    }
  }

  /// Drops a file that is too large for the store; retries one after a storage error.
  private func notKept(_ file: ReceivedFile, _ error: StoreError) {
    if error.reason == .tooLarge {
      intake.lose(file)
      if let number = incoming.settled(file) { remove(number) }
      keepWaitingFiles()
    } else {
      let again = node.now.advanced(by: FileIntake.pause)
      intake.putBack(file, until: again)
      intakeTimer.set(again)
    }
    if node.mayLog(.file) {
      Log.shared.warning(
        "A received file of \(file.content.count) bytes is not stored: \(error)", id: .meshStoreDegraded, .error(error),
        .protocolName("bitchat"))
    }
  }
}
