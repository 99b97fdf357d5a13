import Common

extension MeshEngine {
  /// Maximum packets and bytes of one answer, so that it fits into the queue of the link. The neighbour requests the
  /// rest later.
  private static let answerPackets = 192
  private static let answerBytes = 48 << 10

  /// Sends the sync requests that are due.
  mutating func syncWhatIsDue(_ turn: inout Turn) {
    guard let due = sync.deadline, due <= turn.now else { return }
    let inSeed = seedLinks
    for (link, types, round) in sync.takeDue(&random, slow: inSeed, at: turn.now) {
      guard let peer = links[link]?.peer else { continue }
      var wanted = configuration.role.storesMessages ? types : types.intersection(.announce)
      if wanted.contains(.fragment) { wanted.insert(.fileTransfer) }
      // While other services need the radio, no files are requested.
      if files.isQuiet { wanted.subtract([.fragment, .fileTransfer]) }
      let isBare = inSeed.contains(link) && configuration.role.storesMessages
      let requests =
        isBare
        ? [archive.request(for: wanted, isBare: true, at: turn.time)].compactMap(\.self)
        : archive.requests(for: wanted, round: round, at: turn.time)
      for request in requests {
        let packet = Packet(
          type: .requestSync, timeToLive: 0, timestamp: timestamp(turn), sender: identity.id, recipient: peer,
          payload: request.bytes)
        transmit(packet, as: .own, to: [link], &turn)
      }
    }
  }

  /// Answers a sync request of a direct neighbour. Requests travel one hop.
  mutating func handleSyncRequest(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard packet.timeToLive == 0, links[arrival.link]?.peer == packet.sender, let peer = table[packet.sender],
      arrival.view.recipient.map({ $0 == identity.id }) ?? true,
      let request = try? SyncRequest(reading: packet.payload),
      checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn),
      sync.takeAnswer(on: arrival.link, at: turn.now)
    else {
      counters.refusedRequests += 1
      return
    }
    counters.answeredRequests += 1
    var room = Self.answerBytes
    let isSeed = isSeed(arrival.link)
    let unfit = isSeed ? MessageType.message : SeedNumbers.seed.message
    // Own public messages are archived in both dialects. Messages of others are not sent to a neighbour of the
    // other dialect.
    let isOwnFit = isSeed && hasLivePeersBehind
    let underWay = pending.keys
    for item in archive.missing(request, at: turn.time) where item.sender != peer.id {
      if item.type == unfit, !isSeed || item.sender == identity.id && !isOwnFit { continue }
      if files.isQuiet, item.type == .fragment || item.type == .fileTransfer { continue }
      guard room > 0, let view = try? PacketView(item.bytes) else { continue }
      // An answer is not relayed. A packet that is about to be relayed would, as an answer, arrive there first and go
      // no further.
      guard !underWay.contains(view.wireKey(hash, withSignature: !view.type.isVerifiedHere)) else { continue }
      room -= max(item.bytes.count, Self.answerBytes / Self.answerPackets)
      answer(isSeed ? view.relayed(timeToLive: 0) : view.syncAnswer, item.type, on: arrival.link, &turn)
    }
  }

  /// Sends an answer. Fragments for a phone are paced like those of a file.
  private mutating func answer(_ bytes: [UInt8], _ type: MessageType, on link: LinkID, _ turn: inout Turn) {
    guard type == .fragment, !isFast(link), bytes.count <= frameLimit(of: link) else {
      return transmit(bytes, as: .syncAnswer, to: [link], &turn)
    }
    let dropped = paced.add([bytes], on: link, as: .syncAnswer, in: .passedOn(from: nil), at: turn.now)
    counters.relaysDropped += UInt64(dropped ?? 1)
  }
}
