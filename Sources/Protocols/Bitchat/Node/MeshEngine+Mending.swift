import Common

/// Gap repair: requests for missing fragments of public packets. Facts: bitchat.md section 9, bitchat-delta.md section
/// 2.
extension MeshEngine {
  /// Time from the last fragment to the first request, and between requests. Together with regular requests, this stays
  /// below the 8 per 30 s that a neighbour answers.
  static let mendingPause = Duration.seconds(2)
  static let mendingPeriod = Duration.seconds(6)
  /// Fragment count that fits a filter of usual size. Larger sets use a longer filter with a higher false positive
  /// rate.
  private static let usualFragments = 300
  private static let longFilterBytes = 1000
  private static let longFilterRate = 0.25

  /// Time of the next request; nil if nothing is missing.
  var mendingDeadline: Instant? {
    // A method reference would copy the engine.
    guard !files.isQuiet, configuration.role.storesMessages, let stalled = assembler.nextStalled(Self.mendingPause),
      links.keys.contains(where: { isMending($0) })
    else { return nil }
    return max(stalled, mendedAt?.advanced(by: Self.mendingPeriod) ?? .zero)
  }

  /// Whether the neighbour of a link stores fragments and honours fragment IDs in requests: an Earshot peer, or iOS.
  /// Android would answer with everything else that it has.
  private func isMending(_ link: LinkID) -> Bool { links[link]?.peer.map { table.keepsFragments($0) } ?? false }

  /// Requests missing fragments from one neighbour at a time.
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

  /// Adds archived fragments of an abandoned set to a new set, as if the neighbour had sent them now. Neighbours do not
  /// send archived fragments again.
  private mutating func takeKept(
    _ kept: [GossipArchive.Item], of id: FragmentID, as link: LinkID, _ turn: inout Turn
  ) {
    guard kept.count > assembler.count(of: id) else { return }
    for item in kept {
      guard let bytes = (try? PacketView(item.bytes))?.syncAnswer, let view = try? PacketView(bytes),
        let packet = try? Packet(view), let fragment = try? Fragment(reading: packet.payload)
      else { continue }
      _ = handle(fragment, of: packet, Arrival(view: view, link: link, isReassembled: false, isAnswer: true), &turn)
      if assembler.count(of: id) == 0 { return }
    }
  }
}
