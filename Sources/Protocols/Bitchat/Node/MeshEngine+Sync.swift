import Common

/// Sync requests, answers and gap repair: `GossipSync`.
extension MeshEngine {
  /// Sends the sync requests that are due.
  mutating func syncWhatIsDue(_ turn: inout Turn) {
    guard let due = gossip.deadline, due <= turn.now else { return }
    let (inSeed, view) = (seedLinks, view(turn))
    perform(
      gossip.sendRequests(view, inSeed: inSeed, isQuiet: files.isQuiet, &clock, randomFrom: &random), &turn)
  }

  /// Answers a sync request of a direct neighbour. Requests travel one hop.
  mutating func handleSyncRequest(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard packet.timeToLive == 0, links[arrival.link]?.peer == packet.sender, let peer = table[packet.sender],
      arrival.view.recipient.map({ $0 == identity.id }) ?? true,
      let request = try? SyncRequest(reading: packet.payload),
      checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn),
      gossip.takeAnswer(on: arrival.link, at: turn.now)
    else {
      counters.refusedRequests += 1
      return
    }
    counters.answeredRequests += 1
    let isSeed = isSeed(arrival.link)
    let asker = GossipSync.Asker(
      peer: peer.id, link: arrival.link, isSeed: isSeed, takesLive: isSeed && hasLivePeersBehind)
    let (underWay, hash) = (pending.keys, hash)
    let answers = gossip.answer(request, of: asker, own: identity.id, isQuiet: files.isQuiet, at: turn.time) {
      underWay.contains($0.wireKey(hash, withSignature: !$0.type.isVerifiedHere))
    }
    perform(answers, &turn)
  }

  /// Sends an answer. Fragments for a phone are paced like those of a file.
  mutating func answer(_ bytes: [UInt8], _ type: MessageType, on link: LinkID, _ turn: inout Turn) {
    guard type == .fragment, !isFast(link), bytes.count <= frameLimit(of: link) else {
      return transmit(bytes, as: .syncAnswer, to: [link], &turn)
    }
    let dropped = paced.add([bytes], on: link, as: .syncAnswer, in: .passedOn(from: nil), at: turn.now)
    counters.relaysDropped += UInt64(dropped ?? 1)
  }

  // MARK: Gap repair

  /// Time of the next request for missing fragments; nil if nothing is missing.
  var repairDeadline: Instant? {
    guard !files.isQuiet, configuration.role.storesMessages,
      let stalled = assembler.nextStalled(GossipSync.repairPause)
    else { return nil }
    return gossip.repairDeadline(stalled: stalled, links, table)
  }

  /// Requests missing fragments from one neighbour at a time.
  mutating func repairWhatIsDue(_ turn: inout Turn) {
    guard let due = repairDeadline, due <= turn.now else { return }
    let stalled = assembler.askForStalled(GossipSync.repairPause, at: turn.now, limit: Limits.requestedFragments)
    guard !stalled.isEmpty, let neighbour = gossip.beginRepair(view(turn)) else { return }
    let kept = gossip.archive.fragments(of: Set(stalled))
    for id in stalled { takeKept(kept[id] ?? [], of: id, as: neighbour.link, &turn) }
    let ids = stalled.filter { assembler.count(of: $0) > 0 }
    guard !ids.isEmpty else { return }
    let known = ids.flatMap { kept[$0] ?? [] }.map(\.id)
    perform(gossip.requestFragments(ids, having: known, from: neighbour, view(turn), &clock), &turn)
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
