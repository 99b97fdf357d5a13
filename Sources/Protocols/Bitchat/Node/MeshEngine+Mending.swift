import Common

/// Public packets in fragments that are not complete: what is missing is asked for. Facts: bitchat.md section 9,
/// bitchat-delta.md section 2.
extension MeshEngine {
  /// From the last fragment that came until a neighbour is asked for the others, and from one question to the next. With the
  /// usual requests these are no more than a neighbour answers: 8 in 30 s.
  static let mendingPause = Duration.seconds(2)
  static let mendingPeriod = Duration.seconds(6)
  /// So many fragments have room in a usual filter. One of more is longer, and says less surely what is there.
  private static let usualFragments = 300
  private static let longFilterBytes = 1000
  private static let longFilterRate = 0.25

  /// When it is to be asked next; nil if nothing is missing.
  var mendingDeadline: Instant? {
    // The method by its name would take a copy of the engine with it.
    guard !files.isQuiet, !configuration.isRelayOnly, let stalled = assembler.nextStalled(Self.mendingPause),
      links.keys.contains(where: { isMending($0) })
    else { return nil }
    return max(stalled, mendedAt?.advanced(by: Self.mendingPeriod) ?? .zero)
  }

  /// Whether a link is to a neighbour that keeps fragments, and reads which ones are asked for: a node of this kind, or iOS. Android
  /// would answer with what it has of everything else.
  private func isMending(_ link: LinkID) -> Bool { links[link]?.peer.map { table.keepsFragments($0) } ?? false }

  /// Asks one neighbour at a time for what is missing.
  mutating func mendWhatIsDue(_ turn: inout Turn) {
    guard let due = mendingDeadline, due <= turn.now else { return }
    let stalled = assembler.askForStalled(Self.mendingPause, at: turn.now, limit: Limits.requestedFragments)
    let links = targets().filter { isMending($0) }
    guard !stalled.isEmpty, !links.isEmpty else { return }
    mendedAt = turn.now
    mendings += 1
    let link = links[mendings % links.count]
    guard let peer = self.links[link]?.peer else { return }
    sync.ask(link, at: turn.now)
    let kept = archive.fragments(of: Set(stalled))
    for id in stalled { takeKept(kept[id] ?? [], of: id, as: link, &turn) }
    let ids = stalled.filter { assembler.count(of: $0) > 0 }
    guard !ids.isEmpty else { return }
    let known = ids.flatMap { kept[$0] ?? [] }.map(\.id)
    let isLong = known.count > Self.usualFragments && table.isEarshot(peer)
    let filter =
      isLong ? SyncFilter(known, bytes: Self.longFilterBytes, falsePositives: Self.longFilterRate) : SyncFilter(known)
    guard let request = try? SyncRequest(filter: filter, types: .fragment, fragments: ids) else { return }
    let packet = Packet(
      type: .requestSync, timeToLive: 0, timestamp: timestamp(turn), sender: identity.id, recipient: peer,
      payload: request.bytes)
    transmit(packet, as: .own, to: [link], &turn)
  }

  /// The fragments of a set that was given up are kept, and nobody gives them again: when the set begins anew they are added, as if
  /// this neighbour had given them now.
  private mutating func takeKept(
    _ kept: [GossipArchive.Item], of id: FragmentID, as link: LinkID, _ turn: inout Turn
  ) {
    guard kept.count > assembler.count(of: id) else { return }
    for item in kept {
      guard let bytes = (try? PacketView(item.bytes))?.syncAnswer, let view = try? PacketView(bytes),
        let packet = try? Packet(view), let fragment = try? Fragment(reading: packet.payload)
      else { continue }
      _ = hear(fragment, of: packet, Arrival(view: view, link: link, isReassembled: false, isAnswer: true), &turn)
      if assembler.count(of: id) == 0 { return }
    }
  }
}
