import BitchatWire
import Common
import Crypto

/// Files of this node and of others. Facts: bitchat.md section 10.
extension MeshEngine {
  public typealias SendError = FileSendError

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
    try files.send(file, to: peer, as: number, by: configuration.role, at: now)
    var turn = Turn(now: now, time: time)
    if isStarted { sendFilesWhatIsDue(&turn) }
    return turn.actions
  }

  /// Content of a file that is under way.
  public func content(ofFile number: UInt32) -> [UInt8]? { files.content(of: number) }

  /// Slice size of a public file, in bytes, on the current links; nil if no link can carry one.
  public var sliceBytes: Int? { FileTransfers.sliceBytes(on: neighbourhood.links) }

  /// Whether chat is active, so that files leave capacity for it. `mutating` only so that an engine stored in an object
  /// is called in place, without a copy (as `nextDeadline`).
  public mutating func isBesideChat(at now: Instant) -> Bool { files.isBesideChat(at: now) }

  mutating func sendFilesWhatIsDue(_ turn: inout Turn) {
    guard canSend, files.count > 0 else { return }
    for number in files.numbers { perform(files.check(number, view(turn), &clock), &turn) }
    for link in files.links { perform(files.sendPackets(over: link, view(turn), randomFrom: &random), &turn) }
    perform(files.reportProgress(), &turn)
  }

  /// Makes the packet of a file: signed for everybody, or sealed for one peer.
  mutating func makeFilePacket(_ number: UInt32, _ turn: inout Turn) {
    guard let order = files.order(number) else { return }
    var packet: Packet?
    if let peer = order.peer {
      if let sealed = try? messages.encrypt(NoisePayload.file(order.file).bytes, for: peer, at: turn.now) {
        packet = Packet(
          version: .v2, type: .noiseEncrypted, timestamp: timestamp(turn), sender: identity.id, recipient: peer,
          route: ownLinks(of: peer).isEmpty && order.isFirst ? route(to: peer, turn) ?? [] : [], payload: sealed)
      }
    } else {
      packet = signed(
        Packet(
          version: .v2, type: .fileTransfer, timestamp: timestamp(turn), sender: identity.id, payload: order.file.bytes)
      )
    }
    perform(files.begin(number, packet, view(turn), randomFrom: &random), &turn)
  }

  /// Begins a new session with the peer of a file, if `Sessions` allows it now.
  mutating func renewSession(forFile number: UInt32, with peer: PeerID, _ turn: inout Turn) {
    let actions = messages.handle(.unanswered(peer), neighbourhood.peers, at: turn.now)
    guard !actions.isEmpty else { return }
    files.noteRenewal(of: number, at: turn.now)
    carryOut(actions, &turn)
  }

  /// Removes the packets of a file from archive and queues.
  mutating func withdraw(_ packets: FilePackets, _ turn: inout Turn) {
    gossip.forget(packets, of: identity.id)
    transmitter.withdraw(packets)
    turn.actions.append(.withdraw(packets))
  }

  /// Whether a link takes fragments at full speed because its peer is an Earshot peer.
  func isFast(_ link: LinkID) -> Bool {
    neighbourhood.isFast(link)
  }

  // MARK: Files of others

  /// Minimum number of fragments of an encrypted packet that may be a file. A private text, of at most 255 bytes, has
  /// fewer.
  private static let fewestFragmentsOfFile: UInt16 = 8
  /// Number of fragments that must have arrived before progress is reported.
  private static let fewestReported = 3
  /// Time since the first fragment before progress is reported. The progress of a file that arrives faster is not
  /// reported.
  private static let reportedAfter = Duration.seconds(1)

  /// Whether fragments with this ID may belong to a file for this node.
  func mayBeFile(_ id: FragmentSetID, _ arrival: Arrival) -> Bool {
    switch id.type {
    case .fileTransfer: true
    case .noiseEncrypted: arrival.view.recipient == identity.id && id.total >= Self.fewestFragmentsOfFile
    default: false
    }
  }

  /// Reports to the service how much of a file has arrived.
  mutating func reportProgress(of id: FragmentSetID, _ arrival: Arrival, _ turn: inout Turn) {
    guard mayBeFile(id, arrival), configuration.role.receives, !blocked.contains(id.sender),
      let peer = neighbourhood.peers[id.sender],
      let percent = assembler.report(id, fewest: Self.fewestReported, age: Self.reportedAfter, at: turn.now)
    else { return }
    turn.actions.append(
      .arriving(
        ArrivingFile(
          id: id, sender: peer.id, nickname: peer.nickname, isPrivate: id.type == .noiseEncrypted, percent: percent)))
  }

  /// Handles a packet with a file.
  ///
  /// - Returns: whether the packet may be relayed.
  mutating func handleFile(_ packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn) -> Bool {
    guard let peer = signer(of: packet, arrival, turn) else { return false }
    guard !blocked.contains(peer.id) else {
      counters.blocked += 1
      return true
    }
    let recipient = arrival.view.recipient
    if recipient == nil { keep(arrival, packet, id, &turn) }
    guard configuration.role.receives, recipient == nil || recipient == identity.id else { return true }
    guard packet.timestamp > turn.time || turn.time - packet.timestamp <= GossipArchive.fileMilliseconds
    else { return true }
    // Older apps send a file for one peer in clear. Its sender gets a receipt, but the file is not private.
    let source = FileTransfers.Source(
      sender: peer.id, packet: (packet.timestamp, id), link: arrival.link, arrival: turn.completing)
    let file = try? SharedFile(reading: packet.payload)
    perform(files.handleFile(file, isPublic: recipient == nil, from: source, view(turn)), &turn)
    return true
  }
}
