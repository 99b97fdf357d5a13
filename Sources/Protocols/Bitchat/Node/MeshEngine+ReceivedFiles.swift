import Common

/// Files of others. Facts: bitchat.md section 10.
extension MeshEngine {
  /// Minimum number of fragments of an encrypted packet that may be a file. A private text, of at most 255 bytes, has
  /// fewer.
  private static let fewestFragmentsOfFile: UInt16 = 8
  /// Number of fragments that must have arrived before progress is reported.
  private static let fewestReported = 3
  /// Time since the first fragment before progress is reported. The progress of a file that arrives faster is not
  /// reported.
  private static let reportedAfter = Duration.seconds(1)

  /// Whether fragments may be those of a file for this node.
  func mayBeFile(_ id: FragmentSetID, _ arrival: Arrival) -> Bool {
    switch id.type {
    case .fileTransfer: true
    case .noiseEncrypted: arrival.view.recipient == identity.id && id.total >= Self.fewestFragmentsOfFile
    default: false
    }
  }

  /// Reports to the service how much of a file has arrived.
  mutating func reportProgress(of id: FragmentSetID, _ arrival: Arrival, _ turn: inout Turn) {
    guard mayBeFile(id, arrival), !configuration.isRelayOnly, !blocked.contains(id.sender),
      let peer = table[id.sender],
      let percent = assembler.report(id, fewest: Self.fewestReported, age: Self.reportedAfter, at: turn.now)
    else { return }
    turn.actions.append(
      .arriving(
        ArrivingFile(
          id: id, sender: peer.id, nickname: peer.nickname, isPrivate: id.type == .noiseEncrypted, percent: percent)))
  }

  /// - Returns: whether the packet may be relayed.
  mutating func hear(file packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn) -> Bool {
    guard let peer = signer(of: packet, arrival, turn) else { return false }
    guard !blocked.contains(peer.id) else {
      counters.blocked += 1
      return true
    }
    let recipient = arrival.view.recipient
    if recipient == nil { keep(arrival, packet, id, &turn) }
    guard !configuration.isRelayOnly, recipient == nil || recipient == identity.id else { return true }
    guard packet.timestamp > turn.time || turn.time - packet.timestamp <= GossipArchive.fileMilliseconds
    else { return true }
    let file = try? SharedFile(reading: packet.payload)
    guard let file, isTaken(file) else {
      refuse(file, of: peer.id, &turn)
      return true
    }
    // Older apps send a file for one peer in clear. Its sender gets a receipt, but the file is not private.
    if recipient != nil {
      tell(file, of: peer.id, packet: id, over: arrival.link, &turn)
    } else {
      let received = received(file, of: peer, at: packet.timestamp, packet: id, link: arrival.link, turn)
      turn.actions.append(.file(received))
    }
    return true
  }

  /// Handles a file received in a session.
  mutating func hear(privateFile file: SharedFile, from peer: PeerID, _ turn: inout Turn) {
    guard isTaken(file) else { return refuse(file, of: peer, &turn) }
    tell(file, of: peer, &turn)
  }

  private mutating func tell(
    _ file: SharedFile, of peer: PeerID, packet: PacketID? = nil, over link: LinkID? = nil, _ turn: inout Turn
  ) {
    guard let known = table[peer] else { return }
    // A phone that awaits no receipt may also send one file twice.
    let receipt =
      receipt(of: file, from: peer, to: identity.id, with: peer) ?? .file(file.bytes, from: peer, to: identity.id)
    guard let receipt else { return }
    guard !receivedFiles.see(ReceivedMessage(sender: peer, id: receipt), at: turn.now) else {
      return acknowledge(.delivered(receipt), to: peer, &turn)
    }
    let received = received(file, of: known, at: turn.time, packet: packet, receipt: receipt, link: link, turn)
    turn.actions.append(.file(received))
  }

  /// Handles the service's report that it has stored a private file: sends the receipt, and drops copies from then on.
  mutating func kept(file receipt: MessageID, from peer: PeerID, _ turn: inout Turn) {
    receivedFiles.insert(ReceivedMessage(sender: peer, id: receipt), at: turn.now)
    acknowledge(.delivered(receipt), to: peer, &turn)
  }

  private func received(
    _ file: SharedFile, of peer: Peer, at time: UInt64, packet: PacketID? = nil, receipt: MessageID? = nil,
    link: LinkID? = nil, _ turn: Turn
  ) -> ReceivedFile {
    let kind = FileKind(mime: file.mime) ?? .octetStream
    return ReceivedFile(
      sender: peer.id, nickname: peer.nickname, name: FileName.plain(file.name, kind), kind: kind,
      content: file.content, time: time, packet: packet, receipt: receipt, link: link, arrival: turn.completing)
  }

  private mutating func refuse(_ file: SharedFile?, of peer: PeerID, _ turn: inout Turn) {
    counters.refusedFiles += 1
    guard let known = table[peer] else { return }
    turn.actions.append(.trouble(peer, nickname: known.nickname, .refusedFile(mime: file?.mime ?? "")))
  }

  private func isTaken(_ file: SharedFile) -> Bool {
    FileKind(mime: file.mime)?.isKind(of: file.content) ?? false
  }
}
