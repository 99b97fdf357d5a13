import BitchatWire
import Common
import Crypto

/// Reason why a file is rejected.
public enum FileSendError: Error, Hashable, Sendable {
  /// `OutgoingFiles.limit` files of this node are already under way.
  case tooMany
  /// The node is a relay and sends no files.
  case relayOnly
}

/// Sends files of this node, and receives those of others. Facts: bitchat.md section 10.
///
/// A private file is sent only inside a session in which the peer has proven that it accepts private files, and never
/// in clear.
struct FileTransfers: Sendable {
  private(set) var outgoing = OutgoingFiles()
  /// Received private files, for the detection of copies.
  private var received = RecentPackets<ReceivedMessage>(limit: 1000, lifetime: .seconds(15 * 60))
  /// Capabilities that peers have stated inside Noise, for all peers with a session and some others.
  private(set) var capabilities: [PeerID: Capabilities] = [:]

  var count: Int { outgoing.count }
  var numbers: [UInt32] { outgoing.numbers }
  /// Links with waiting packets, sorted by number.
  var links: [LinkID] { outgoing.links }
  /// Whether sending is paused because another service needs the radio.
  var isQuiet: Bool { outgoing.isQuiet }

  /// Next time at which a packet or a check of a file is due; nil if there is none.
  ///
  /// - Parameter isFast: whether a link takes fragments at full speed.
  func deadline(isFast: (LinkID) -> Bool) -> Instant? { outgoing.deadline(isFast: isFast) }

  /// Content of a file that is under way.
  func content(of number: UInt32) -> [UInt8]? { outgoing[number]?.file.content }

  // MARK: Links

  /// Pauses all files of this node during a radio inhibit, or resumes them.
  mutating func hold(_ isQuiet: Bool) { outgoing.hold(isQuiet) }
  /// Records that `waiting` packets of files are queued on a link.
  mutating func hasRoom(_ link: LinkID, waiting: Int) { outgoing.hasRoom(link, waiting: waiting) }
  /// Removes a link, and the file packets that waited for it.
  mutating func forget(_ link: LinkID) { outgoing.forget(link) }
  /// Whether packets of a file wait for a link.
  func isWaiting(for link: LinkID) -> Bool { outgoing.isWaiting(for: link) }
  /// Delays the next fragment after another packet on the link.
  mutating func giveWay(on link: LinkID, at now: Instant) { outgoing.giveWay(on: link, at: now) }
  /// Records that a chat message was sent, beside which files leave capacity for a while.
  mutating func chatted(at now: Instant) { outgoing.chatted(at: now) }
  /// Whether another chat message is likely while a file is sent.
  func isBesideChat(at now: Instant) -> Bool { outgoing.isBesideChat(at: now) }

  /// Handles a confirmation of a neighbour.
  ///
  /// - Returns: whether it confirms packets of files.
  mutating func confirm(_ confirmation: FileConfirmation, on link: LinkID, at now: Instant) -> Bool {
    outgoing.confirm(confirmation, on: link, at: now)
  }

  // MARK: Files of this node

  /// Queues a file. It is sent as soon as there is a receiver.
  ///
  /// - Parameter peer: recipient; nil for a public file.
  mutating func send(
    _ file: SharedFile, to peer: PeerID?, as number: UInt32, by role: NodeRole, at now: Instant
  ) throws(FileSendError) {
    guard role.sends else { throw .relayOnly }
    guard outgoing.count < OutgoingFiles.limit else { throw .tooMany }
    outgoing[number] = OutgoingFile(number: number, file: file, peer: peer, at: now)
  }

  /// Stops a file: nothing more of it is sent, not even in answer to a sync request. A public file that was already
  /// sent is removed from the archive.
  mutating func cancel(_ number: UInt32) -> [Intent] {
    if let file = outgoing[number] { return end(file, .cancelled) }
    return outgoing.takeGiven(number).map { [.withdraw($0)] } ?? []
  }

  /// Cancels the files for a peer that is forgotten.
  mutating func cancel(to peer: PeerID) -> [Intent] {
    outgoing.files.filter { $0.peer == peer }.flatMap { end($0, .cancelled) }
  }

  /// Pauses the files for a peer that has left, until it returns.
  mutating func putOff(to peer: PeerID, at now: Instant) -> [Intent] {
    var intents: [Intent] = []
    for file in outgoing.files where file.peer == peer && file.phase == .sending {
      intents += withdrawal(of: file)
      outgoing[file.number]?.legs = [:]
      // The links did not cause the interruption, so it does not count as a try.
      outgoing[file.number]?.wasHeld = true
      outgoing[file.number]?.phase = .waiting(now.advanced(by: OutgoingFiles.lookTime))
      intents.append(.report(.fileState(file.number, .waiting)))
    }
    return intents
  }

  private mutating func end(_ file: OutgoingFile, _ state: FileState) -> [Intent] {
    var intents: [Intent] = []
    outgoing[file.number] = nil
    if state != .sent, state != .delivered {
      intents = withdrawal(of: file)
    } else if file.peer == nil, let cut = file.cut {
      outgoing.give(file.number, cut.packets)
    }
    return intents + [.report(.fileState(file.number, state))]
  }

  /// Removal of the waiting packets of a file from archive and queues.
  private func withdrawal(of file: OutgoingFile) -> [Intent] { file.cut.map { [.withdraw($0.packets)] } ?? [] }

  /// Makes all waiting files look for a link at once, because a link or peer is new.
  mutating func hurry(at now: Instant) {
    for number in outgoing.numbers {
      if case .waiting = outgoing[number]?.phase { outgoing[number]?.phase = .waiting(now) }
    }
  }

  /// Makes the waiting files for a peer due now.
  mutating func hurry(to peer: PeerID, at now: Instant) {
    for number in outgoing.numbers where outgoing[number]?.peer == peer {
      if case .waiting = outgoing[number]?.phase { outgoing[number]?.phase = .waiting(now) }
    }
  }

  /// Marks the files for a peer that has a new session.
  mutating func renew(to peer: PeerID, at now: Instant) {
    for number in outgoing.numbers where outgoing[number]?.peer == peer {
      outgoing[number]?.isOfEarlierSession = true
    }
    hurry(to: peer, at: now)
  }

  /// Records the capabilities that a peer has stated inside Noise.
  mutating func note(_ stated: Capabilities, of peer: PeerID, limit: Int, _ view: NodeView) {
    // Entries without a session are not needed: the peer sends its state again in the next one.
    if capabilities.count >= limit { capabilities = capabilities.filter { view.sessions.hasSession(with: $0.key) } }
    capabilities[peer] = stated
    hurry(to: peer, at: view.now)
  }

  /// Removes the capabilities of a peer that is forgotten.
  mutating func forget(_ peer: PeerID) { capabilities[peer] = nil }

  // MARK: Due packets

  /// Decides what must be done for a file now.
  ///
  /// - Parameter clock: gives timestamps for repeated fragments.
  mutating func check(_ number: UInt32, _ view: NodeView, _ clock: inout PacketClock) -> [Intent] {
    guard let file = outgoing[number] else { return [] }
    switch file.phase {
    case .waiting(let moment): return moment <= view.now ? look(after: file, view) : []
    case .unanswered(let moment): return moment <= view.now ? tryAgain(file, view, &clock) : []
    case .sending: return lookWhetherFresh(file, view, &clock)
    }
  }

  private mutating func look(after file: OutgoingFile, _ view: NodeView) -> [Intent] {
    guard file.begunAt.duration(to: view.now) < OutgoingFiles.lifetime else { return end(file, .failed(.away)) }
    outgoing[file.number]?.phase = .waiting(view.now.advanced(by: OutgoingFiles.lookTime))
    guard outgoing.hasPlace, !outgoing.isQuiet, !view.links.isEmpty else { return [] }
    // A neighbour that has not announced itself does not accept files.
    guard let peer = file.peer else { return view.neighbours.isEmpty ? [] : prepare(file) }
    guard view.peers.has(peer) else { return [] }
    guard view.sessions.hasSession(with: peer) else {
      outgoing[file.number]?.askedAt = nil
      return [.beginSession(peer)]
    }
    guard let proven = capabilities[peer] else {
      guard let askedAt = file.askedAt else {
        outgoing[file.number]?.askedAt = view.now
        return []
      }
      guard askedAt.duration(to: view.now) >= OutgoingFiles.proofTime else { return [] }
      guard !file.hasAskedAnew else { return end(file, .failed(.noPrivateFiles)) }
      // A peer sends its state once per session, and that packet can be lost.
      return [.renewSession(forFile: file.number, with: peer)]
    }
    return proven.contains(.privateMedia) ? prepare(file) : end(file, .failed(.noPrivateFiles))
  }

  /// Records that the peer of a file is asked for its capabilities again, in a new session.
  mutating func noteRenewal(of number: UInt32, at now: Instant) {
    outgoing[number]?.askedAt = now
    outgoing[number]?.hasAskedAnew = true
  }

  /// Requests a new packet with the file, unless too many were made. `begin` follows.
  private mutating func prepare(_ file: OutgoingFile) -> [Intent] {
    guard file.tries < OutgoingFiles.tries || file.wasHeld else {
      return end(file, .failed(file.peer == nil ? .unsendable : .unanswered))
    }
    return withdrawal(of: file) + [.makeFilePacket(file.number)]
  }

  /// Content and recipient of a file, for the packet that `Intent.makeFilePacket` requests; nil for an unknown file.
  /// `isFirst` is true before the first attempt.
  func order(_ number: UInt32) -> (file: SharedFile, peer: PeerID?, isFirst: Bool)? {
    outgoing[number].map { ($0.file, $0.peer, $0.tries == 0) }
  }

  /// Fragments the packet of a file for its links.
  ///
  /// - Parameter packet: nil if no packet can carry the file.
  mutating func begin(
    _ number: UInt32, _ packet: Packet?, _ view: NodeView, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    guard var file = outgoing[number] else { return [] }
    guard let packet, let bytes = try? packet.encoded(), let encoded = try? PacketView(bytes),
      let id = try? FragmentID(reading: random.bytes(FragmentID.size))
    else { return end(file, .failed(.unsendable)) }
    let targets = Self.carriers(
      of: encoded, as: id, among: Self.targets(packet.recipient, packet.route, tries: file.tries, view), view.links)
    guard !targets.isEmpty else {
      outgoing[file.number]?.phase = .waiting(view.now.advanced(by: OutgoingFiles.lookTime))
      return []
    }
    let limit = view.links.narrowest(targets)
    let cutter = bytes.count > limit ? FragmentCutter(encoded, id: id, frameLimit: limit) : nil
    file.cut = OutgoingFile.Cut(bytes: bytes, cutter: cutter, madeAt: view.now)
    file.receipt = file.peer.flatMap { receipt(of: file.file, from: view.own, to: $0, with: $0, view.peers) }
    file.legs = Dictionary(uniqueKeysWithValues: targets.map { ($0, 0) })
    (file.phase, file.percent, file.isWhole) = (.sending, 0, false)
    (file.repeatedTime, file.repetitions) = (nil, 0)
    file.staleAt = view.now.advanced(by: OutgoingFiles.freshTime)
    // A pause caused by another tenant does not count as a try.
    if !file.wasHeld { file.tries += 1 }
    (file.wasHeld, file.isOfEarlierSession) = (false, false)
    // A route of several hops may include a phone, so fragments are paced.
    file.isSlow = file.peer.map { view.ownLinks(of: $0).isEmpty } ?? false
    outgoing[file.number] = file
    return [.report(.fileState(file.number, .sending))]
  }

  /// Returns the links for a file. A public file is sent to all neighbours. A private file is sent over the peer's own
  /// links. From the second try on, links that the peer's announces arrive over are added.
  private static func targets(_ peer: PeerID?, _ route: [PeerID], tries: Int, _ view: NodeView) -> [LinkID] {
    guard let peer else { return view.links.targets() }
    if let hop = route.first { return view.links.links(to: hop) }
    let own = view.ownLinks(of: peer)
    guard !own.isEmpty else { return view.links.targets() }
    return tries == 0 ? own : own + view.ways.others(to: peer, besides: own, at: view.now).map(\.link)
  }

  /// Selects the links that can carry the packet, whole or in fragments. Without a link of usual width, only the widest
  /// is used, because small fragments cost too much on several.
  private static func carriers(
    of packet: PacketView, as id: FragmentID, among near: [LinkID], _ links: LinkTable<MeshLink>
  ) -> [LinkID] {
    let able = near.filter { link in
      let limit = links.frameLimit(of: link)
      return packet.bytes.count <= limit || FragmentCutter(packet, id: id, frameLimit: limit) != nil
    }
    return carriers(among: able, links)
  }

  private static func carriers(among able: [LinkID], _ links: LinkTable<MeshLink>) -> [LinkID] {
    let wide = able.filter { !links.isNarrow($0) }
    guard wide.isEmpty else { return wide }
    return able.max { links.frameLimit(of: $0) < links.frameLimit(of: $1) }.map { [$0] } ?? []
  }

  /// Slice size of a public file, in bytes, on these links; nil if no link can carry one.
  static func sliceBytes(on links: LinkTable<MeshLink>) -> Int? {
    let limits = carriers(among: links.targets(), links).map { links.frameLimit(of: $0) }
    return limits.min().flatMap { FragmentPlan.sliceSize(frameLimit: $0, hasRecipient: false, hops: 0) }
  }

  /// Renews or ends a file whose packet has become too old for phones.
  ///
  /// For Earshot peers, fragments continue with a new timestamp until `longestTime` ends. Otherwise a new packet is
  /// made. A public file that one link received completely is not remade: other nodes would treat it as another file.
  /// Neighbours on slower links request missing fragments.
  private mutating func lookWhetherFresh(
    _ file: OutgoingFile, _ view: NodeView, _ clock: inout PacketClock
  ) -> [Intent] {
    guard let cut = file.cut else { return [] }
    if file.legs.isEmpty { return finish(file, at: view.now) }
    guard !outgoing.isQuiet, file.staleAt <= view.now else { return [] }
    if file.isWhole, file.peer == nil {
      outgoing[file.number]?.legs = [:]
      return outgoing[file.number].map { finish($0, at: view.now) } ?? []
    }
    let end = cut.madeAt.advanced(by: Self.wholeTime(of: file, view))
    guard cut.cutter != nil, end > view.now else { return prepare(file) }
    var late = file
    if file.peer == nil { late.legs = file.legs.filter { view.isFast($0.key) } }
    late.repeatedTime = clock.timestamp(at: view.time)
    late.staleAt = min(view.now.advanced(by: OutgoingFiles.freshTime), end)
    outgoing[file.number] = late
    return []
  }

  /// Maximum age of a file's packet at the arrival of the last fragment.
  private static func wholeTime(of file: OutgoingFile, _ view: NodeView) -> Duration {
    let isForNodes = file.peer.map { view.peers.isEarshot($0) } ?? file.legs.keys.contains { view.isFast($0) }
    return isForNodes ? OutgoingFiles.longestTime : OutgoingFiles.freshTime
  }

  /// Handles a file whose links have ended or have received all of it.
  private mutating func finish(_ file: OutgoingFile, at now: Instant) -> [Intent] {
    guard file.isWhole else {
      outgoing[file.number]?.phase = .waiting(now.advanced(by: OutgoingFiles.lookTime))
      return [.report(.fileState(file.number, .waiting))]
    }
    let progress = reportProgress(of: file)
    guard file.receipt != nil else { return progress + end(file, .sent) }
    outgoing[file.number]?.phase = .unanswered(until: now.advanced(by: OutgoingFiles.answerTime))
    return progress
  }

  /// Repeats a file that the peer has not acknowledged. The missing fragments are sent again with a new timestamp, so
  /// that relays forward them. A new packet is made if the repetition failed before or would take too long, or if the
  /// session is new.
  private mutating func tryAgain(_ file: OutgoingFile, _ view: NodeView, _ clock: inout PacketClock) -> [Intent] {
    guard let peer = file.peer, let cut = file.cut, view.peers.has(peer), view.sessions.hasSession(with: peer) else {
      outgoing[file.number]?.phase = .waiting(view.now)
      return look(after: outgoing[file.number] ?? file, view)
    }
    guard outgoing.hasPlace, !outgoing.isQuiet else {
      outgoing[file.number]?.phase = .unanswered(until: view.now.advanced(by: OutgoingFiles.answerTime))
      return []
    }
    let spent = cut.madeAt.duration(to: view.now)
    let targets =
      cut.cutter.map {
        Self.carriers(
          of: $0.packet, as: $0.id, among: Self.targets(peer, $0.packet.route, tries: file.tries, view), view.links)
      } ?? []
    let longest = view.links.narrowest(targets)
    let fits = cut.cutter?.fragment(0).flatMap { try? $0.encoded() }.map { $0.count <= longest } ?? false
    // A repetition takes as long as the first time, and must end before the packet is too old.
    let wholeTime = Self.wholeTime(of: file, view)
    let isOfUse = file.repetitions < OutgoingFiles.repetitions && spent * 2 < wholeTime && !file.isOfEarlierSession
    guard isOfUse, file.tries < OutgoingFiles.tries, fits, !targets.isEmpty else { return prepare(file) }
    var again = file
    again.tries += 1
    again.repetitions += 1
    again.legs = Dictionary(uniqueKeysWithValues: targets.map { ($0, 0) })
    again.repeatedTime = clock.timestamp(at: view.time)
    (again.phase, again.percent, again.isWhole) = (.sending, 0, false)
    again.staleAt = min(view.now.advanced(by: OutgoingFiles.freshTime), cut.madeAt.advanced(by: wholeTime))
    outgoing[file.number] = again
    return []
  }

  /// Reports the progress of all files that are being sent.
  mutating func reportProgress() -> [Intent] {
    var intents: [Intent] = []
    for number in outgoing.numbers where outgoing[number]?.phase == .sending {
      if let file = outgoing[number] { intents += reportProgress(of: file) }
    }
    return intents
  }

  private mutating func reportProgress(of file: OutgoingFile) -> [Intent] {
    let percent = file.sentPercent
    guard percent != file.percent else { return [] }
    outgoing[file.number]?.percent = percent
    return [.report(.fileProgress(file.number, percent: percent))]
  }

  /// Sends the packets of files that are due on a link.
  mutating func sendPackets(
    over link: LinkID, _ view: NodeView, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    let isFast = view.isFast(link)
    var intents = askForConfirmation(on: link, view, randomFrom: &random)
    while let (number, index, isPaced) = outgoing.take(for: link, isFast: isFast, at: view.now) {
      if isPaced { intents.append(.giveWay(link)) }
      if let piece = outgoing.piece(index, of: number) {
        intents.append(.report(.send(piece.bytes, on: link, .file)))
        // Archived, so that neighbours can request missing fragments.
        if piece.isPublic { intents += Self.archived(piece) }
      }
      intents += askForConfirmation(on: link, view, randomFrom: &random)
    }
    for number in outgoing.gone {
      if let file = outgoing[number] { intents += finish(file, at: view.now) }
    }
    return intents
  }

  private static func archived(_ piece: OutgoingFiles.Piece) -> [Intent] {
    let item =
      piece.packet.map { GossipArchive.Item(bytes: piece.bytes, of: $0) } ?? GossipArchive.Item(bytes: piece.bytes)
    return item.map { [.archive($0)] } ?? []
  }

  /// Sends a ping behind the file packets on a link to an Earshot peer, if a confirmation is due.
  private mutating func askForConfirmation(
    on link: LinkID, _ view: NodeView, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    guard outgoing.isConfirmationDue(on: link), let peer = view.peer(of: link) else { return [] }
    let nonce = PingPayload.nonce(randomFrom: &random)
    let interval = outgoing.ask(nonce, on: link, at: view.now)
    return [.sendPing(PingPayload(nonce: nonce, interval: interval), as: .ping, in: .file, to: peer, over: link)]
  }

  // MARK: Receipts

  /// Message ID of a private file in its receipt, by the rule that both ends follow; nil if there is no receipt.
  ///
  /// - Parameter other: the end that is not this node.
  private func receipt(
    of file: SharedFile, from sender: PeerID, to recipient: PeerID, with other: PeerID, _ peers: PeerTable
  ) -> MessageID? {
    if peers.isEarshot(other) { return .file(file.bytes, from: sender, to: recipient) }
    guard capabilities[other]?.isSuperset(of: [.privateMedia, .privateMediaReceipts]) == true else { return nil }
    return .media(file.name, from: sender, to: recipient)
  }

  /// Handles a receipt of a peer.
  ///
  /// - Returns: nil if the receipt belongs to no file.
  mutating func handleReceipt(_ id: MessageID, from peer: PeerID) -> [Intent]? {
    guard let file = outgoing.files.first(where: { $0.receipt == id && $0.peer == peer }) else { return nil }
    // Fragments that still wait are no longer needed.
    let withdrawn: [Intent] = file.cut.map { [.report(.withdraw($0.packets))] } ?? []
    return withdrawn + end(file, .delivered)
  }

  // MARK: Files of others

  /// Sender, packet and link of a received file.
  struct Source {
    let sender: PeerID
    /// Timestamp and ID of the packet, if the file was sent in clear.
    var packet: (time: UInt64, id: PacketID)?
    /// Link over which the packet arrived; nil for a packet without a link.
    var link: LinkID?
    /// ID of the fragments from which the packet was assembled; nil for a packet without fragments.
    var arrival: FragmentSetID?
  }

  /// Handles a file.
  ///
  /// - Parameters:
  ///   - file: nil if it cannot be decoded.
  ///   - isPublic: whether it is for everybody. The sender of another file gets a receipt.
  mutating func handleFile(_ file: SharedFile?, isPublic: Bool, from source: Source, _ view: NodeView) -> [Intent] {
    let sender = view.peers[source.sender]
    guard let file, FileKind(mime: file.mime)?.isKind(of: file.content) ?? false else {
      let trouble = PeerTrouble.refusedFile(mime: file?.mime ?? "")
      return [.count(\.refusedFiles)]
        + (sender.map { [.report(.trouble($0.id, nickname: $0.nickname, trouble))] } ?? [])
    }
    guard let sender else { return [] }
    var receipt: MessageID?
    if !isPublic {
      // A phone that awaits no receipt may also send one file twice.
      receipt =
        self.receipt(of: file, from: sender.id, to: view.own, with: sender.id, view.peers)
        ?? .file(file.bytes, from: sender.id, to: view.own)
      guard let receipt else { return [] }
      guard !received.see(ReceivedMessage(sender: sender.id, id: receipt), at: view.now) else {
        return [.acknowledge(.delivered(receipt), to: sender.id)]
      }
    }
    let kind = FileKind(mime: file.mime) ?? .octetStream
    let time = isPublic ? source.packet?.time ?? view.time : view.time
    return [
      .report(
        .file(
          ReceivedFile(
            sender: sender.id, nickname: sender.nickname, name: FileName.plain(file.name, kind), kind: kind,
            content: file.content, time: time, packet: source.packet?.id, receipt: receipt, link: source.link,
            arrival: source.arrival)))
    ]
  }

  /// Handles the service's report that it has stored a private file: sends the receipt, and drops copies from then on.
  mutating func handleStored(_ receipt: MessageID, from peer: PeerID, at now: Instant) -> [Intent] {
    received.insert(ReceivedMessage(sender: peer, id: receipt), at: now)
    return [.acknowledge(.delivered(receipt), to: peer)]
  }
}
