import Common
import Crypto

/// Files sent by this node. Facts: bitchat.md section 10.
extension MeshEngine {
  /// Reason why a file is rejected.
  public enum SendError: Error, Hashable, Sendable {
    /// `OutgoingFiles.limit` files are under way.
    case tooMany
    /// The node is a relay and sends no files.
    case relayOnly
  }

  /// Queues a file. It is sent as soon as there is a receiver. A private file is sent only inside a session in which
  /// the peer has proven that it accepts private files, and never in clear.
  ///
  /// - Parameters:
  ///   - peer: recipient; nil for a public file.
  ///   - number: unique number of the file, chosen by the caller.
  public mutating func send(
    _ file: SharedFile, to peer: PeerID?, as number: UInt32, at now: Instant, time: UInt64
  ) throws(SendError) -> [Action] {
    isDueKnown = false
    guard configuration.role.sends else { throw .relayOnly }
    guard files.count < OutgoingFiles.limit else { throw .tooMany }
    files[number] = OutgoingFile(number: number, file: file, peer: peer, at: now)
    var turn = Turn(now: now, time: time)
    if isStarted { sendFilesWhatIsDue(&turn) }
    return turn.actions
  }

  /// Content of a file that is under way.
  public func content(ofFile number: UInt32) -> [UInt8]? { files[number]?.file.content }

  /// Stops a file: nothing more of it is sent, not even in answer to a sync request. A public file that was already
  /// sent is removed from the archive.
  mutating func cancelFile(_ number: UInt32, _ turn: inout Turn) {
    if let file = files[number] { return end(file, .cancelled, &turn) }
    if let packets = files.takeGiven(number) { withdraw(packets, &turn) }
  }

  /// Cancels the files for a peer that is forgotten.
  mutating func cancelFiles(to peer: PeerID, _ turn: inout Turn) {
    for file in files.files where file.peer == peer { end(file, .cancelled, &turn) }
  }

  /// Pauses the files for a peer that has left, until it returns.
  mutating func putOffFiles(to peer: PeerID, _ turn: inout Turn) {
    for file in files.files where file.peer == peer && file.phase == .sending {
      withdraw(file, &turn)
      files[file.number]?.legs = [:]
      // The links did not cause the interruption, so it does not count as a try.
      files[file.number]?.wasHeld = true
      files[file.number]?.phase = .waiting(turn.now.advanced(by: OutgoingFiles.lookTime))
      turn.actions.append(.fileState(file.number, .waiting))
    }
  }

  private mutating func end(_ file: OutgoingFile, _ state: FileState, _ turn: inout Turn) {
    files[file.number] = nil
    if state != .sent, state != .delivered {
      withdraw(file, &turn)
    } else if file.peer == nil, let cut = file.cut {
      files.give(file.number, cut.packets)
    }
    turn.actions.append(.fileState(file.number, state))
  }

  /// Removes the waiting packets of a file from archive and queues.
  private mutating func withdraw(_ file: OutgoingFile, _ turn: inout Turn) {
    if let cut = file.cut { withdraw(cut.packets, &turn) }
  }

  private mutating func withdraw(_ packets: FilePackets, _ turn: inout Turn) {
    switch packets {
    case .fragments(let id): archive.forget(id, of: identity.id)
    case .whole(let bytes): archive.forget(filePacket: bytes)
    }
    paced.remove(where: packets.contains)
    turn.actions.append(.withdraw(packets))
  }

  /// Makes all waiting files due now.
  mutating func hurryFiles(_ turn: inout Turn) {
    for number in files.numbers {
      if case .waiting = files[number]?.phase { files[number]?.phase = .waiting(turn.now) }
    }
  }

  /// Makes the waiting files for a peer due now.
  mutating func hurryFiles(to peer: PeerID, _ turn: inout Turn) {
    for number in files.numbers where files[number]?.peer == peer {
      if case .waiting = files[number]?.phase { files[number]?.phase = .waiting(turn.now) }
    }
  }

  /// Marks the files for a peer that has a new session.
  mutating func renewFiles(to peer: PeerID, _ turn: inout Turn) {
    for number in files.numbers where files[number]?.peer == peer { files[number]?.isOfEarlierSession = true }
    hurryFiles(to: peer, &turn)
  }

  // MARK: Due packets

  mutating func sendFilesWhatIsDue(_ turn: inout Turn) {
    guard canSend, files.count > 0 else { return }
    for number in files.numbers {
      guard let file = files[number] else { continue }
      switch file.phase {
      case .waiting(let moment): if moment <= turn.now { look(after: file, &turn) }
      case .unanswered(let moment): if moment <= turn.now { tryAgain(file, &turn) }
      case .sending: lookWhetherFresh(file, &turn)
      }
    }
    for link in files.links { sendFiles(over: link, &turn) }
    for number in files.numbers where files[number]?.phase == .sending {
      if let file = files[number] { tellProgress(file, &turn) }
    }
  }

  private mutating func look(after file: OutgoingFile, _ turn: inout Turn) {
    guard file.begunAt.duration(to: turn.now) < OutgoingFiles.lifetime else { return end(file, .failed(.away), &turn) }
    files[file.number]?.phase = .waiting(turn.now.advanced(by: OutgoingFiles.lookTime))
    guard files.hasPlace, !files.isQuiet, !links.isEmpty else { return }
    guard let peer = file.peer else {
      // A neighbour that has not announced itself does not accept files.
      if !neighbours.isEmpty { begin(file, &turn) }
      return
    }
    guard table.has(peer) else { return }
    guard sessions.hasSession(with: peer) else {
      files[file.number]?.askedAt = nil
      return carryOut(sessions.handle(.begin(peer), at: turn.now), &turn)
    }
    guard let proven = proven[peer] else {
      guard let askedAt = file.askedAt else {
        files[file.number]?.askedAt = turn.now
        return
      }
      guard askedAt.duration(to: turn.now) >= OutgoingFiles.proofTime else { return }
      guard !file.hasAskedAnew else { return end(file, .failed(.noPrivateFiles), &turn) }
      // A peer sends its state once per session, and that packet can be lost.
      let actions = sessions.handle(.unanswered(peer), at: turn.now)
      guard !actions.isEmpty else { return }
      files[file.number]?.askedAt = turn.now
      files[file.number]?.hasAskedAnew = true
      return carryOut(actions, &turn)
    }
    guard proven.contains(.privateMedia) else { return end(file, .failed(.noPrivateFiles), &turn) }
    begin(file, &turn)
  }

  /// Makes the packet of the file, and fragments it for its links.
  private mutating func begin(_ file: OutgoingFile, _ turn: inout Turn) {
    var file = file
    guard file.tries < OutgoingFiles.tries || file.wasHeld else {
      return end(file, .failed(file.peer == nil ? .unsendable : .unanswered), &turn)
    }
    withdraw(file, &turn)
    guard let packet = filePacket(file, turn), let bytes = try? packet.encoded(), let view = try? PacketView(bytes),
      let id = try? FragmentID(reading: random.bytes(FragmentID.size))
    else {
      return end(file, .failed(.unsendable), &turn)
    }
    let targets = carriers(
      of: view, as: id, among: fileTargets(packet.recipient, packet.route, tries: file.tries, turn))
    guard !targets.isEmpty else {
      files[file.number]?.phase = .waiting(turn.now.advanced(by: OutgoingFiles.lookTime))
      return
    }
    let limit = narrowest(targets)
    let cutter = bytes.count > limit ? FragmentCutter(view, id: id, frameLimit: limit) : nil
    file.cut = OutgoingFile.Cut(bytes: bytes, cutter: cutter, madeAt: turn.now)
    file.receipt = file.peer.flatMap { receipt(of: file.file, from: identity.id, to: $0, with: $0) }
    file.legs = Dictionary(uniqueKeysWithValues: targets.map { ($0, 0) })
    (file.phase, file.percent, file.isWhole) = (.sending, 0, false)
    (file.repeatedTime, file.repetitions) = (nil, 0)
    file.staleAt = turn.now.advanced(by: OutgoingFiles.freshTime)
    // A pause caused by another tenant does not count as a try.
    if !file.wasHeld { file.tries += 1 }
    (file.wasHeld, file.isOfEarlierSession) = (false, false)
    // A route of several hops may include a phone, so fragments are paced.
    file.isSlow = file.peer.map { ownLink(of: $0) == nil } ?? false
    files[file.number] = file
    turn.actions.append(.fileState(file.number, .sending))
  }

  private mutating func filePacket(_ file: OutgoingFile, _ turn: Turn) -> Packet? {
    guard let peer = file.peer else {
      let packet = Packet(
        version: .v2, type: .fileTransfer, timestamp: timestamp(turn), sender: identity.id, payload: file.file.bytes)
      return signed(packet)
    }
    guard let sealed = try? sessions.seal(NoisePayload.file(file.file).bytes, for: peer, at: turn.now) else {
      return nil
    }
    return Packet(
      version: .v2, type: .noiseEncrypted, timestamp: timestamp(turn), sender: identity.id, recipient: peer,
      route: ownLink(of: peer) == nil && file.tries == 0 ? route(to: peer, turn) ?? [] : [], payload: sealed)
  }

  /// Returns the links for a file. A public file is sent to all neighbours. A private file is sent over the peer's own
  /// links. From the second try on, links that the peer's announces arrive over are added.
  private func fileTargets(_ peer: PeerID?, _ route: [PeerID], tries: Int, _ turn: Turn) -> [LinkID] {
    guard let peer else { return targets() }
    if let hop = route.first { return links(to: hop) }
    let own = ownLinks(of: peer)
    guard !own.isEmpty else { return targets() }
    return tries == 0 ? own : own + ways.others(to: peer, besides: own, at: turn.now).map(\.link)
  }

  /// Selects the links that can carry the packet, whole or in fragments. Without a link of usual width, only the widest
  /// is used, because small fragments cost too much on several.
  private func carriers(of packet: PacketView, as id: FragmentID, among near: [LinkID]) -> [LinkID] {
    carriers(
      among: near.filter { link in
        let limit = frameLimit(of: link)
        return packet.bytes.count <= limit || FragmentCutter(packet, id: id, frameLimit: limit) != nil
      })
  }

  private func carriers(among able: [LinkID]) -> [LinkID] {
    let wide = able.filter { !isNarrow($0) }
    guard wide.isEmpty else { return wide }
    return able.max { frameLimit(of: $0) < frameLimit(of: $1) }.map { [$0] } ?? []
  }

  /// Slice size of a public file, in bytes, on the current links; nil if no link can carry one.
  public var sliceBytes: Int? {
    let limits = carriers(among: targets()).map { frameLimit(of: $0) }
    return limits.min().flatMap { FragmentPlan.sliceSize(frameLimit: $0, hasRecipient: false, hops: 0) }
  }

  /// Renews or ends a file whose packet has become too old for phones.
  ///
  /// For Earshot peers, fragments continue with a new timestamp until `longestTime` ends. Otherwise a new packet is
  /// made. A public file that one link received completely is not remade: other nodes would treat it as another file.
  /// Neighbours on slower links request missing fragments.
  private mutating func lookWhetherFresh(_ file: OutgoingFile, _ turn: inout Turn) {
    guard let cut = file.cut else { return }
    if file.legs.isEmpty { return finish(file, &turn) }
    guard !files.isQuiet, file.staleAt <= turn.now else { return }
    if file.isWhole, file.peer == nil {
      files[file.number]?.legs = [:]
      if let whole = files[file.number] { finish(whole, &turn) }
      return
    }
    let end = cut.madeAt.advanced(by: wholeTime(of: file))
    guard cut.cutter != nil, end > turn.now else { return begin(file, &turn) }
    var late = file
    if file.peer == nil { late.legs = file.legs.filter { isFast($0.key) } }
    (late.repeatedTime, late.staleAt) = (timestamp(turn), min(turn.now.advanced(by: OutgoingFiles.freshTime), end))
    files[file.number] = late
  }

  /// Maximum age of a file's packet at the arrival of the last fragment.
  private func wholeTime(of file: OutgoingFile) -> Duration {
    let isForNodes = file.peer.map { table.isEarshot($0) } ?? file.legs.keys.contains { isFast($0) }
    return isForNodes ? OutgoingFiles.longestTime : OutgoingFiles.freshTime
  }

  /// Handles a file whose links have ended or have received all of it.
  private mutating func finish(_ file: OutgoingFile, _ turn: inout Turn) {
    guard file.isWhole else {
      files[file.number]?.phase = .waiting(turn.now.advanced(by: OutgoingFiles.lookTime))
      turn.actions.append(.fileState(file.number, .waiting))
      return
    }
    tellProgress(file, &turn)
    guard file.receipt != nil else { return end(file, .sent, &turn) }
    files[file.number]?.phase = .unanswered(until: turn.now.advanced(by: OutgoingFiles.answerTime))
  }

  /// Repeats a file that the peer has not acknowledged. The missing fragments are sent again with a new timestamp, so
  /// that relays forward them. A new packet is made if that failed before, would take too long, or the session is new.
  private mutating func tryAgain(_ file: OutgoingFile, _ turn: inout Turn) {
    guard let peer = file.peer, let cut = file.cut, table.has(peer), sessions.hasSession(with: peer) else {
      files[file.number]?.phase = .waiting(turn.now)
      return look(after: files[file.number] ?? file, &turn)
    }
    guard files.hasPlace, !files.isQuiet else {
      files[file.number]?.phase = .unanswered(until: turn.now.advanced(by: OutgoingFiles.answerTime))
      return
    }
    let spent = cut.madeAt.duration(to: turn.now)
    let targets =
      cut.cutter.map { [turn] in
        carriers(of: $0.packet, as: $0.id, among: fileTargets(peer, $0.packet.route, tries: file.tries, turn))
      } ?? []
    let fits = cut.cutter?.fragment(0).flatMap { try? $0.encoded() }.map { $0.count <= narrowest(targets) } ?? false
    // A repetition takes as long as the first time, and must end before the packet is too old.
    let wholeTime = wholeTime(of: file)
    let isOfUse = file.repetitions < OutgoingFiles.repetitions && spent * 2 < wholeTime && !file.isOfEarlierSession
    guard isOfUse, file.tries < OutgoingFiles.tries, fits, !targets.isEmpty else { return begin(file, &turn) }
    var again = file
    again.tries += 1
    again.repetitions += 1
    again.legs = Dictionary(uniqueKeysWithValues: targets.map { ($0, 0) })
    (again.phase, again.percent, again.isWhole, again.repeatedTime) = (.sending, 0, false, timestamp(turn))
    again.staleAt = min(turn.now.advanced(by: OutgoingFiles.freshTime), cut.madeAt.advanced(by: wholeTime))
    files[file.number] = again
  }

  private mutating func tellProgress(_ file: OutgoingFile, _ turn: inout Turn) {
    let percent = file.sentPercent
    guard percent != file.percent else { return }
    files[file.number]?.percent = percent
    turn.actions.append(.fileProgress(file.number, percent: percent))
  }

  // MARK: Links

  /// Whether chat is active, so that files leave capacity for it. `mutating` only so that an engine stored in an object
  /// is called in place, without a copy (as `nextDeadline`).
  public mutating func isBesideChat(at now: Instant) -> Bool { files.isBesideChat(at: now) }

  /// Whether a link takes fragments at full speed because its peer is an Earshot peer.
  func isFast(_ link: LinkID) -> Bool {
    links[link]?.peer.map { table.isEarshot($0) } ?? false
  }

  private mutating func sendFiles(over link: LinkID, _ turn: inout Turn) {
    askForConfirmation(on: link, &turn)
    while let (number, index, isPaced) = files.take(for: link, isFast: isFast(link), at: turn.now) {
      defer { askForConfirmation(on: link, &turn) }
      if isPaced { paced.giveWay(on: link, at: turn.now) }
      guard let piece = files.piece(index, of: number) else { continue }
      turn.actions.append(.send(piece.bytes, on: link, .file))
      // Archived, so that neighbours can request missing fragments.
      if piece.isPublic { keepOwn(piece) }
    }
    for number in files.gone {
      if let file = files[number] { finish(file, &turn) }
    }
  }

  private mutating func keepOwn(_ piece: OutgoingFiles.Piece) {
    let item =
      piece.packet.map { GossipArchive.Item(bytes: piece.bytes, of: $0) } ?? GossipArchive.Item(bytes: piece.bytes)
    if let item { _ = archive.keep(item) }
  }

  // MARK: Receipts

  /// Message ID of a private file in its receipt, by the rule that both ends follow; nil if there is no receipt.
  ///
  /// - Parameter other: the end that is not this node.
  func receipt(of file: SharedFile, from sender: PeerID, to recipient: PeerID, with other: PeerID) -> MessageID? {
    if table.isEarshot(other) { return .file(file.bytes, from: sender, to: recipient) }
    guard proven[other]?.isSuperset(of: [.privateMedia, .privateMediaReceipts]) == true else { return nil }
    return .media(file.name, from: sender, to: recipient)
  }

  /// Handles a receipt for a file.
  ///
  /// - Returns: whether the receipt belongs to a file.
  mutating func handleFileReceipt(_ id: MessageID, from peer: PeerID, _ turn: inout Turn) -> Bool {
    guard let file = files.files.first(where: { $0.receipt == id && $0.peer == peer }) else { return false }
    // Fragments that still wait are no longer needed.
    if let cut = file.cut { turn.actions.append(.withdraw(cut.packets)) }
    end(file, .delivered, &turn)
    return true
  }
}
