import Bitchat
import Common
import Crypto
import Journal
import Loop
import MeshStore
import Store

/// Public and private files.
extension MeshService {
  /// Sends a file.
  ///
  /// - Parameters:
  ///   - name: file name for the recipients, without folders of a path.
  ///   - mime: MIME type that the apps accept; empty to detect it from the content.
  ///   - peer: name of the peer for ``MeshNameBook/peer(_:)``; empty for everybody.
  /// - Returns: the file's number.
  public func send(
    file content: [UInt8], name: String, mime: String, to peer: String
  ) throws(MeshRefusal) -> UInt32 {
    guard settings.role.sends else { throw .relay }
    guard !content.isEmpty else { throw .emptyFile }
    guard content.count <= Limits.fileBytes else { throw .fileTooLong }
    let kind = mime.isEmpty ? FileKind(content: content) : FileKind(mime: mime)
    guard let kind, kind.isKind(of: content) else { throw .otherKind(mime) }
    let recipient = peer.isEmpty ? nil : try self.peer(called: peer)
    guard recipient == nil || recipient != ownID else { throw .ourselves }
    guard engine != nil else { throw .notReady(hindrance ?? "The mesh is not ready.") }
    let plain = FileName.plain(name, kind)
    guard let file = try? SharedFile(name: plain, mime: kind.rawValue, content: content) else { throw .fileTooLong }
    let number = log.takeNumber()
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.SendError) {
      actions = try engine?.send(file, to: recipient, as: number, at: scheduler.now, time: time) ?? []
    } catch {
      switch error {
      case .tooMany: throw .tooManyFiles
      case .relayOnly: throw .relay
      }
    }
    let entry = FileLog.Entry(
      number: number, direction: .outgoing, name: plain, mime: kind.rawValue, size: content.count, peer: recipient,
      nickname: "", isPrivate: recipient != nil, time: time)
    if let old = files.add(entry) { removeFile(old) }
    fileChanges.call(number)
    if let recipient { noteContact(recipient, .wasWrittenTo) }
    keep([.number(number)])
    perform(actions)
    return number
  }

  /// Reads the content of a received file, or of one that is being sent.
  func open(file number: UInt32, then: @escaping @LoopActor (Result<[UInt8], StoreError>) -> Void) {
    if let kept = files[number]?.kept { return keeper.content(of: kept, then: then) }
    let content = engine?.content(ofFile: number)
    let missing =
      files[number]?.direction == .incoming
      ? "The file is not complete yet." : "The content of sent files is not stored."
    scheduler.soon { then(content.map { .success($0) } ?? .failure(StoreError(.missing, missing))) }
  }

  /// - Returns: whether a file was cancelled.
  func cancel(file number: UInt32) -> Bool {
    guard files[number]?.isUnderWay == true else { return false }
    handle(.cancelFile(number))
    return true
  }

  /// Removes a file. Cancels one that is being sent, and withdraws a sent public file.
  ///
  /// - Parameter then: called when the content is erased, or with the error that prevents it.
  func delete(file number: UInt32, then: @escaping @LoopActor (StoreError?) -> Void) {
    guard let entry = files[number] else { return scheduler.soon { then(nil) } }
    if entry.direction == .outgoing { handle(.cancelFile(number)) }
    removeFile(number)
    guard let kept = entry.kept else { return scheduler.soon { then(nil) } }
    var changes: [MeshChange] = [.fileGone(number)]
    let deleted = DeletedFile(kept, at: time)
    if !deleted.keys.isEmpty {
      files.note(deleted)
      changes.append(.deleted(deleted))
    }
    keep(changes, then: then)
  }

  func removeFile(_ number: UInt32) {
    files.remove(number)
    fileChanges.call(number)
  }

  /// Removes the files that exceeded a limit or expired.
  func filesGone(_ numbers: [UInt32]) {
    for number in numbers where files[number]?.direction == .incoming { removeFile(number) }
  }

  // MARK: Events of the engine

  /// Handles a received file. Its sender gets a receipt once it is stored.
  func received(_ file: ReceivedFile) {
    guard settings.role.receives else { return }
    if files.knows(file.keys, at: time) {
      // The sender did not get the receipt.
      if let receipt = file.receipt { handle(.fileKept(receipt, from: file.sender)) }
      return
    }
    guard !isErased(file) else { return }
    guard intake.take(file, isOfFavourite: marks[file.sender]?.isFavourite == true, at: scheduler.now) else { return }
    noteContact(file.sender, file.isPrivate ? .wrotePrivately : .wrotePublicly, nickname: file.nickname)
    fileArrivalNumbers.completed(file)
    keepWaitingFiles()
  }

  /// Whether a wipe has erased a public file, or the file is older than the wipe.
  private func isErased(_ file: ReceivedFile) -> Bool {
    guard let erased, let packet = file.packet else { return false }
    return erased.contains(packet) || erased.surelyPredatesWipe(file.time)
  }

  /// Lists an incoming file from its first progress report on.
  func arriving(_ file: ArrivingFile) {
    guard settings.role.receives else { return }
    let number = fileArrivalNumbers.number(of: file.id, at: scheduler.now) {
      let number = log.takeNumber()
      files.add(
        FileLog.Entry(
          number: number, direction: .incoming, name: "", mime: "", size: 0, peer: file.sender,
          nickname: PrintableText.clean(file.nickname, limit: 60), isPrivate: file.isPrivate, time: time))
      return number
    }
    guard let number, files[number] != nil else { return }
    files.note(percent: file.percent, of: number)
    fileChanges.call(number)
  }

  /// Removes an incoming file that did not become complete, or was rejected.
  func arrivalEnded(_ id: FragmentSetID) {
    if let number = fileArrivalNumbers.ended(id) { removeFile(number) }
  }

  /// Stores the files that wait, unless the store has just failed.
  func keepWaitingFiles() {
    while let file = intake.next(at: scheduler.now) { keep(file) }
  }

  private func keep(_ file: ReceivedFile) {
    var random = makeRandom()
    let listed = fileArrivalNumbers.number(of: file).flatMap { files[$0] == nil ? nil : $0 }
    let kept = MeshFile(
      number: listed ?? log.takeNumber(), time: file.time, sender: file.sender,
      nickname: PrintableText.clean(file.nickname, limit: 60),
      name: file.name, mime: file.kind.rawValue, size: file.content.count, packet: file.packet, receipt: file.receipt,
      place: random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) })
    keeper.keep(kept, content: file.content) { [weak self] error in
      // After a wipe, the file is unknown.
      guard let self, intake.isBeingWritten(file) else { return }
      defer { changed() }
      if let error { return notKept(file, error) }
      intake.wrote(file)
      _ = fileArrivalNumbers.settled(file)
      files.add(kept)
      if let receipt = file.receipt { handle(.fileKept(receipt, from: file.sender)) }
      fileChanges.call(kept.number)
      fileArrivals.call(kept.number)
      keepWaitingFiles()
    }
  }

  /// Drops a file that is too large for the store; retries one after a storage error.
  private func notKept(_ file: ReceivedFile, _ error: StoreError) {
    if error.reason == .tooLarge {
      intake.lose(file)
      if let number = fileArrivalNumbers.settled(file) { removeFile(number) }
      keepWaitingFiles()
    } else {
      let again = scheduler.now.advanced(by: FileIntake.pause)
      intake.putBack(file, until: again)
      intakeTimer.set(again)
    }
    if told.allow(.file, at: scheduler.now) {
      Log.shared.warning(
        "A received file of \(file.content.count) bytes is not stored: \(error)", id: .meshStoreDegraded, .error(error),
        .protocolName("bitchat"))
    }
  }

  func fileBecame(_ state: FileState, _ number: UInt32) {
    guard files.note(state, of: number) else { return }
    fileChanges.call(number)
    fileProgress.call((number, state.name))
  }

  // MARK: Links

  /// Handles that another service needs the radio, or no longer does.
  func quietChanged() {
    listen()
    handle(.quiet(radio.isQuietWanted))
    for port in ports.values { pump(port) }
  }

  /// Records that a link has sent a packet of a file. The engine is notified at `OutgoingRoom.few` and at 0 queued
  /// packets.
  func tookFile(_ port: MeshPort) {
    if port.queue.files == OutgoingRoom.few || port.queue.files == 0 { tellRoom(port) }
  }

  /// Notifies the engine of the number of queued file packets, once per loop iteration.
  private func tellRoom(_ port: MeshPort) {
    guard !port.isRoomToBeTold else { return }
    port.isRoomToBeTold = true
    scheduler.soon { [weak self, weak port] in
      guard let self, let port else { return }
      port.isRoomToBeTold = false
      guard ports[port.id] === port else { return }
      handle(.room(port.id, waiting: port.queue.files))
    }
  }

  /// Stops a file: removes its packets from all queues. A packet that is being written is not retried.
  func withdraw(_ packets: FilePackets) {
    for port in ports.values {
      if let frame = port.writing?.frame, packets.contains(frame) { port.writing = (frame, Self.writeAttempts) }
      guard !port.queue.isEmpty else { continue }
      port.queue.removeFiles(where: packets.contains)
      tellRoom(port)
    }
  }
}

/// Queue length at which a link reports capacity for file packets.
enum OutgoingRoom {
  /// Number of queued packets; 0 is reported too.
  static let few = 8
}
