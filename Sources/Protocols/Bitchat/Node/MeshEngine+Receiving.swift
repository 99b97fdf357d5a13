import Common
import Crypto

extension MeshEngine {
  mutating func receive(_ bytes: [UInt8], on link: LinkID, _ turn: inout Turn) {
    guard isStarted, let place = links.index(of: link) else { return }
    counters.frames += 1
    do throws(PacketError) {
      let view = try PacketView(bytes)
      links.change(at: place) { $0.heardAt = turn.now }
      accept(view, on: link, isReassembled: false, &turn)
      confirm(view, on: link, &turn)
    } catch {
      counters.count(error)
      if links[link]?.garbage.take(at: turn.now) == false { cut(link, .garbage, &turn) }
    }
  }

  /// Handles a packet: drops irrelevant ones, processes those for this node, and relays the rest.
  mutating func accept(_ view: PacketView, on link: LinkID, isReassembled: Bool, _ turn: inout Turn) {
    guard view.sender != identity.id, erased?.isFormerSelf(view.sender) != true else {
      counters.echoes += 1
      turn.isIdle = true
      return
    }
    let isAnswer = view.timeToLive == 0 && !view.isRequest
    let arrival = Arrival(view: view, link: link, isReassembled: isReassembled, isAnswer: isAnswer)
    // Packets for other nodes are not decoded, except the head of a compressed fragment, and their signatures are not
    // checked.
    let isVerified = view.type.isVerifiedHere && isRead(view)
    let key = view.wireKey(hash, withSignature: !isVerified)
    guard !seen.see(key, view.type, at: turn.now) else { return hearCopy(of: arrival, key, &turn) }
    guard !isAnswer || sync.awaitsAnswer(on: link, at: turn.now) else {
      counters.unaskedAnswers += 1
      return
    }
    guard view.type == .announce || isTimely(arrival, turn) else { return }
    // An announce older than the newest one only shows which link is the sender's.
    let isOvertaken = view.type == .announce && view.timestamp < table.newest(of: view.sender)
    guard arrival.isDirect || !isOvertaken else {
      counters.oldAnnounces += 1
      return
    }
    let goesOn = !blocked.contains(view.sender) || !configuration.blocksRelay
    guard goesOn || view.type == .announce || view.type == .leave else {
      counters.blocked += 1
      return
    }
    guard
      isVerified || isReassembled
        || budget.takeUnverified(view.type, on: link, isFast: isFast(link), at: turn.now)
    else {
      counters.tooManyUnverified += 1
      return
    }
    if !isReassembled, let isFirst = view.isFirstOfHandshake,
      !handshakes.take(view, isFirst: isFirst, from: origin(of: link), hash, at: turn.now)
    {
      counters.tooManyHandshakes += 1
      return
    }
    guard isRead(view) else {
      seen.insert(key, view.type, at: turn.now)
      return relay(arrival, key, &turn)
    }
    if view.type == .announce, refresh(arrival, key, goesOn: goesOn, &turn) { return }
    guard budget.takeInflation(of: view.inflatedCount, on: link, at: turn.now) else {
      counters.tooMuchInflation += 1
      return
    }
    let packet: Packet
    do throws(PacketError) { packet = try Packet(view) } catch {
      counters.count(error)
      return
    }
    // A relay may have recompressed the packet; its bytes then differ, but its ID does not.
    let id = PacketID(packet)
    guard !isVerified || !seen.see(id, at: turn.now), !archive.isLastAnnounce(id, of: view.sender) else {
      seen.insert(key, view.type, at: turn.now)
      return hearCopy(of: arrival, key, id: id, &turn)
    }
    let isOfKnown = view.type == .announce && table.has(view.sender)
    let mayGoOn = act(on: packet, arrival, id, &turn)
    // Reassembled packets may have marked the turn as idle.
    turn.isIdle = false
    guard mayGoOn else { return }
    seen.insert(key, view.type, at: turn.now)
    // The archive knows the latest announce of each peer.
    if isVerified, !archive.isLastAnnounce(id, of: view.sender) { seen.insert(id, at: turn.now) }
    let isNewsTooOften =
      view.type == .announce && !isOvertaken && !table.passOn(view.sender, burst: Self.burst, at: turn.now)
    let reach: UInt8
    if !goesOn || isOvertaken || isNewsTooOften {
      reach = SeenPackets.ended
    } else {
      reach = isReassembled ? decide(view)?.timeToLive ?? 0 : 0
    }
    seen.note(reach: reach, of: key, view.type)
    if goesOn, !isOvertaken, !isNewsTooOften { relay(arrival, key, isOfKnown: isOfKnown, &turn) }
    if isVerified { seen.shareReach(of: key, view.type, with: id) }
  }

  /// Whether this node decodes a packet. Others are relayed unchanged.
  func isRead(_ view: PacketView) -> Bool {
    switch view.type {
    case .announce, .message, .leave, .requestSync: true
    case .noiseHandshake, .noiseEncrypted, .ping, .pong: view.recipient == identity.id
    case .courier where view.recipient == identity.id: true
    case .fragment, .fileTransfer: view.recipient == nil || view.recipient == identity.id
    default: isReadInSeed(view)
    }
  }

  /// - Parameter id: ID of the packet, if known.
  private mutating func hearCopy(
    of arrival: Arrival, _ key: WireKey, id: PacketID? = nil, _ turn: inout Turn
  ) {
    counters.duplicates += 1
    turn.isIdle = true
    relay(copy: arrival, key, id: id, &turn)
    guard arrival.view.type == .announce, table.has(arrival.view.sender) else { return }
    if arrival.isDirect {
      // The announce was known before it arrived over its sender's own link.
      turn.isIdle = false
      bind(arrival.link, to: arrival.view.sender, &turn)
    }
    noteWay(of: arrival, to: arrival.view.sender, &turn)
  }

  /// - Returns: whether the packet is valid and may be relayed.
  private mutating func act(
    on packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    switch packet.type {
    case .announce:
      switch hear(announce: packet, arrival, &turn) {
      case .taken:
        keep(arrival, packet, id, &turn)
        return true
      case .contested: return true
      case .refused: return false
      }
    case .message: return hear(message: packet, arrival, id, &turn)
    case .leave: return hear(leave: packet, arrival, &turn)
    case .noiseHandshake, .noiseEncrypted:
      hear(noise: packet, arrival, &turn)
      return true
    case .fileTransfer: return hear(file: packet, arrival, id, &turn)
    case .ping:
      hear(ping: packet, arrival, &turn)
      return true
    case .pong:
      hear(pong: packet, arrival, &turn)
      return true
    case .fragment: return hear(fragment: packet, arrival, id, &turn)
    case .courier where packet.recipient == identity.id && isEnvelope(packet):
      return hear(envelope: packet, arrival, &turn)
    case .requestSync:
      if !hear(ack: packet, arrival, &turn) { hear(request: packet, arrival, &turn) }
      return false
    default: return packet.type.isOfSeed ? hear(seed: packet, arrival, &turn) : true
    }
  }

  // MARK: Chat

  private mutating func hear(
    message packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    guard let peer = signer(of: packet, arrival, turn) else { return isOfRival(packet, arrival, turn) }
    guard let text = try? PublicText(payload: packet.payload) else {
      counters.unreadable += 1
      return false
    }
    guard !blocked.contains(peer.id) else {
      counters.blocked += 1
      return true
    }
    if let recipient = arrival.view.recipient, recipient != identity.id { return true }
    guard takeLine(of: peer.id, arrival, turn) else { return false }
    // Archived messages were reported before, maybe in an earlier run.
    let isKnown = archive.hasMessage(id)
    keep(arrival, packet, id, &turn)
    guard !configuration.isRelayOnly, !isKnown, !talks.hasHeard(id, at: turn.now) else { return true }
    turn.actions.append(
      .heard(
        PublicMessage(
          sender: peer.id, nickname: peer.nickname, text: text.text, timestamp: packet.timestamp, packet: id,
          isLate: arrival.isAnswer, via: mark(of: arrival.link))))
    return true
  }

  /// Whether a public message is within the limits of its sender and of the origin of its link (`LineQuota`). Counts
  /// the message.
  mutating func takeLine(of peer: PeerID, _ arrival: Arrival, _ turn: Turn) -> Bool {
    let isDear = favourites.contains(peer) || isVerified(peer)
    guard lines.take(from: peer, isDear: isDear, over: origin(of: arrival.link), at: turn.now) else {
      counters.tooManyLines += 1
      return false
    }
    return true
  }

  /// Mark of the device at the other end of a link.
  func mark(of link: LinkID) -> UInt32 { links[link]?.mark ?? DeviceOrigin(link).mark(for: identity.id) }

  mutating func hear(leave packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard let peer = table[packet.sender],
      checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn)
    else { return false }
    // A leave that is older than the peer's latest announce has no effect.
    guard packet.timestamp >= peer.announcedAt else { return false }
    let mayGoOn = table.passOn(peer.id, burst: Self.burst, at: turn.now)
    table.hear(peer.id, at: turn.now)
    table.leave(peer.id, at: packet.timestamp)
    archive.leave(peer.id)
    // The session of the peer ends too.
    _ = sessions.handle(.forget(peer.id), at: turn.now)
    vacateLinks(of: peer.id, turn)
    putOffFiles(to: peer.id, &turn)
    courier.due = turn.now
    turn.actions.append(.gone(peer.id))
    return mayGoOn
  }

  mutating func keep(
    _ arrival: Arrival, _ packet: Packet, _ id: PacketID, of fragment: GossipArchive.Item.FragmentHead? = nil,
    _ turn: inout Turn
  ) {
    guard !blocked.contains(packet.sender) else { return }
    let item = GossipArchive.Item(
      bytes: arrival.view.bytes, id: id, type: packet.type, sender: packet.sender, timestamp: packet.timestamp,
      fragment: fragment, via: mark(of: arrival.link))
    if archive.keep(item) { turn.actions.append(.keep(.gossip(item))) }
  }

  // MARK: Fragments

  private mutating func hear(
    fragment packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    // Nested fragments are rejected, because they could cause unlimited work.
    guard !arrival.isReassembled, let fragment = try? Fragment(reading: packet.payload), fragment.type != .fragment
    else {
      if !hear(hello: packet, arrival, &turn) { counters.badFragments += 1 }
      return false
    }
    if arrival.view.recipient == nil { keep(arrival, packet, id, of: (fragment.id, fragment.type), &turn) }
    return hear(fragment, of: packet, arrival, &turn)
  }

  mutating func hear(
    _ fragment: Fragment, of packet: Packet, _ arrival: Arrival, _ turn: inout Turn
  ) -> Bool {
    let isKnown = table.has(packet.sender)
    let id = FragmentSetID(sender: packet.sender, id: fragment.id, type: fragment.type, total: fragment.total)
    switch assembler.add(
      fragment, from: packet.sender, isKnown: isKnown, isPublic: arrival.view.recipient == nil, over: arrival.link,
      timeToLive: arrival.view.timeToLive, at: turn.now)
    {
    case .stored:
      reportProgress(of: id, arrival, &turn)
      return true
    case .duplicate: return true
    case .complete(let bytes):
      // The packet was relayed as fragments.
      turn.completing = id
      do throws(PacketError) {
        let view = try Self.view(reassembled: bytes)
        // Fragments of another type were not counted by `HandshakeFlow`.
        guard view.type != .noiseHandshake || fragment.type == .noiseHandshake else {
          counters.badFragments += 1
          return true
        }
        if view.sender == packet.sender { accept(view, on: arrival.link, isReassembled: true, &turn) }
      } catch {
        counters.count(error)
      }
      turn.completing = nil
      if mayBeFile(id, arrival) { turn.actions.append(.arrivalEnded(id)) }
      return true
    case .otherSlice:
      // One of the two is forged; which one is unknown.
      counters.badFragments += 1
      return true
    case .tooLong:
      counters.badFragments += 1
      return false
    }
  }

  /// Decodes a reassembled packet. Android removes a last signature byte 01 as padding before it fragments a packet. If
  /// one byte is missing, it is restored; the signature check shows whether that was right.
  private static func view(reassembled bytes: [UInt8]) throws(PacketError) -> PacketView {
    do throws(PacketError) {
      return try PacketView(bytes)
    } catch {
      guard case .truncated(let needed, let available) = error, needed == available + 1,
        let view = try? PacketView(bytes + [1]), view.signature != nil
      else { throw error }
      return view
    }
  }

  // MARK: Checks

  /// Returns the sender of a packet if it is known and the signature is valid. Queues the packet of an unknown sender
  /// until the sender announces itself.
  mutating func signer(of packet: Packet, _ arrival: Arrival, _ turn: Turn) -> Peer? {
    guard let peer = table[packet.sender] else {
      if !unknown.add(arrival, at: turn.now) { counters.chatOfUnknown += 1 }
      return nil
    }
    guard checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn) else { return nil }
    table.hear(peer.id, version: packet.version, at: turn.now)
    return peer
  }

  /// Whether a packet whose signature fails with the pinned key is signed with the rival key. Such a packet is relayed
  /// without other effects.
  private mutating func isOfRival(_ packet: Packet, _ arrival: Arrival, _ turn: Turn) -> Bool {
    guard let key = disputes.rival(of: packet.sender), table.has(packet.sender) else { return false }
    return checkSignature(arrival, packet, key, isKnownAnnounce: false, turn)
  }

  /// Whether the signature of a packet is valid, within the work budget of the link.
  mutating func checkSignature(
    _ arrival: Arrival, _ packet: Packet, _ key: Ed25519.PublicKey, isKnownAnnounce: Bool, _ turn: Turn
  ) -> Bool {
    guard budget.takeSignature(on: arrival.link, isKnownAnnounce: isKnownAnnounce, at: turn.now) else {
      counters.tooManySignatures += 1
      return false
    }
    let check = SignatureCheck(arrival.view, decoded: packet, key: key, by: signatures)
    // `takeSignature` charged one signature. Further ones, and long payloads, are charged here.
    budget.spend(check.computed * (1 + packet.payload.count / WorkBudget.bytesPerSignature) - 1, on: arrival.link)
    if !check.isValid { counters.badSignatures += 1 }
    return check.isValid
  }

  /// Whether the timestamp of a packet is close to this node's clock. Answers to sync requests may be older, and so may
  /// reassembled file packets, whose fragments take long over a slow link.
  private mutating func isTimely(_ arrival: Arrival, _ turn: Turn) -> Bool {
    let mayBeFile = arrival.isReassembled && [.fileTransfer, .noiseEncrypted].contains(arrival.view.type)
    let oldest =
      arrival.isAnswer
      ? GossipArchive.messageMilliseconds : mayBeFile ? GossipArchive.fileMilliseconds : Limits.clockMilliseconds
    return isTimely(arrival.view.timestamp, turn, oldest: oldest)
  }

  /// Whether the timestamp of a verified announce is close to this node's clock. A deviation may show that this node's
  /// clock is wrong.
  mutating func isTimely(_ timestamp: UInt64, _ arrival: Arrival, _ turn: Turn) -> Bool {
    let oldest = arrival.isAnswer ? GossipArchive.oldAnnounceMilliseconds : Limits.clockMilliseconds
    return isTimely(timestamp, turn, oldest: oldest)
  }

  private mutating func isTimely(_ timestamp: UInt64, _ turn: Turn, oldest: UInt64) -> Bool {
    let limit = timestamp > turn.time ? Limits.clockMilliseconds : oldest
    guard Self.distance(timestamp, turn.time) > limit else { return true }
    // An answer that is too old does not indicate a wrong clock.
    if limit == Limits.clockMilliseconds { counters.clock += 1 } else { counters.tooOld += 1 }
    return false
  }

  static func distance(_ one: UInt64, _ other: UInt64) -> UInt64 { one > other ? one - other : other - one }
}

extension MessageType {
  /// Whether this node checks signatures of this type when it decodes a packet, and identifies copies by the signed
  /// content.
  var isVerifiedHere: Bool { self == .announce || self == .message || self == .leave || self == .fileTransfer }
}
