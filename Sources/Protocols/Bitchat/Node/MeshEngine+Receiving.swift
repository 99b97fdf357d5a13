import Common
import Crypto

extension MeshEngine {
  mutating func receive(_ bytes: [UInt8], on link: LinkID, _ turn: inout Turn) {
    guard isStarted, let place = neighbourhood.links.index(of: link) else { return }
    counters.frames += 1
    do throws(PacketError) {
      let view = try PacketView(bytes)
      neighbourhood.hear(at: place, turn.now)
      accept(view, on: link, isReassembled: false, &turn)
      if pings.isConfirming(on: link) {
        let intents = pings.confirm(view, on: link, self.view(turn))
        if !intents.isEmpty { turn.isIdle = false }
        perform(intents, &turn)
      }
    } catch {
      counters.count(error)
      if neighbourhood.isMalformedTooOften(on: link, at: turn.now) { cut(link, .garbage, &turn) }
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
    let isVerified = view.isVerified(by: identity.id)
    let key = gate.key(of: view, isVerified: isVerified)
    guard !gate.isCopy(key, view.type, at: turn.now) else { return handleCopy(of: arrival, key, &turn) }
    let isOvertaken = view.type == .announce && view.timestamp < neighbourhood.peers.newest(of: view.sender)
    let goesOn = !configuration.blocksRelay || !blocked.contains(view.sender)
    let context = PacketGate.Context(
      now: turn.now, time: turn.time, own: identity.id, origin: origin(of: link), isFast: !isVerified && isFast(link),
      awaitsAnswer: isAnswer && gossip.awaitsAnswer(on: link, at: turn.now), isOvertaken: isOvertaken, goesOn: goesOn)
    switch gate.admit(arrival, key, isVerified: isVerified, context) {
    case .dropped(let refusal):
      counters[keyPath: refusal] += 1
      return
    case .forOthers: return relay(arrival, key, &turn)
    case .forNode: break
    }
    if view.type == .announce, refresh(arrival, key, goesOn: goesOn, &turn) { return }
    guard let packet = decoded(view, on: link, turn) else { return }
    // A relay may have recompressed the packet; its bytes then differ, but its ID does not.
    let id = PacketID(packet)
    guard !isVerified || !gate.isCopy(id, at: turn.now), !gossip.archive.isLastAnnounce(id, of: view.sender) else {
      gate.remember(key, view.type, at: turn.now)
      return handleCopy(of: arrival, key, id: id, &turn)
    }
    let isOfKnown = view.type == .announce && neighbourhood.peers.has(view.sender)
    let mayGoOn = act(on: packet, arrival, id, &turn)
    // Reassembled packets may have marked the turn as idle.
    turn.isIdle = false
    guard mayGoOn else { return }
    gate.remember(key, view.type, at: turn.now)
    // The archive knows the latest announce of each peer.
    if isVerified, !gossip.archive.isLastAnnounce(id, of: view.sender) { gate.remember(id, at: turn.now) }
    let isNewsTooOften =
      view.type == .announce && !isOvertaken && !neighbourhood.passOn(view.sender, at: turn.now)
    if !goesOn || isOvertaken || isNewsTooOften {
      gate.end(key, view.type)
    } else {
      gate.note(reach: isReassembled ? relayRules.decide(view)?.timeToLive ?? 0 : 0, of: key, view.type)
      relay(arrival, key, isOfKnown: isOfKnown, &turn)
    }
    if isVerified { gate.shareReach(of: key, view.type, with: id) }
  }

  /// Decodes a packet; nil if it is dropped.
  private mutating func decoded(_ view: PacketView, on link: LinkID, _ turn: Turn) -> Packet? {
    switch gate.decode(view, on: link, at: turn.now) {
    case .packet(let packet): return packet
    case .dropped(let refusal): counters[keyPath: refusal] += 1
    case .malformed(let error): counters.count(error)
    }
    return nil
  }

  /// Counts the reason why a packet is dropped, if there is one.
  ///
  /// - Returns: whether there is one.
  mutating func isRefused(_ refusal: PacketGate.Refusal?) -> Bool {
    guard let refusal else { return false }
    counters[keyPath: refusal] += 1
    return true
  }

  /// Handles a copy of an earlier packet.
  ///
  /// - Parameter id: ID of the packet, if known.
  private mutating func handleCopy(
    of arrival: Arrival, _ key: WireKey, id: PacketID? = nil, _ turn: inout Turn
  ) {
    counters.duplicates += 1
    turn.isIdle = true
    relay(copy: arrival, key, id: id, &turn)
    guard arrival.view.type == .announce, neighbourhood.peers.has(arrival.view.sender) else { return }
    if arrival.isDirect {
      // The announce was known before it arrived over its sender's own link.
      turn.isIdle = false
      bind(arrival.link, to: arrival.view.sender, &turn)
    }
    noteWay(of: arrival, to: arrival.view.sender, &turn)
  }

  /// Handles a packet for this node by its type.
  ///
  /// - Returns: whether the packet is valid and may be relayed.
  private mutating func act(
    on packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    switch packet.type {
    case .announce:
      switch handleAnnounce(packet, arrival, &turn) {
      case .taken:
        keep(arrival, packet, id, &turn)
        return true
      case .contested: return true
      case .refused: return false
      }
    case .message: return handlePublicMessage(packet, arrival, id, &turn)
    case .leave: return handleLeave(packet, arrival, &turn)
    case .noiseHandshake, .noiseEncrypted:
      handleNoise(packet, arrival, &turn)
      return true
    case .fileTransfer: return handleFile(packet, arrival, id, &turn)
    case .ping:
      handlePing(packet, arrival, &turn)
      return true
    case .pong:
      handlePong(packet, arrival, &turn)
      return true
    case .fragment: return handleFragment(packet, arrival, id, &turn)
    case .courier where packet.recipient == identity.id && isEnvelope(packet):
      return handleEnvelope(packet, arrival, &turn)
    case .requestSync:
      if !handleVersionAck(packet, arrival, &turn) { handleSyncRequest(packet, arrival, &turn) }
      return false
    default: return packet.type.isOfSeed ? handleSeedPacket(packet, arrival, &turn) : true
    }
  }

  // MARK: Chat

  private mutating func handlePublicMessage(
    _ packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
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
    let isKnown = gossip.archive.hasMessage(id)
    keep(arrival, packet, id, &turn)
    guard configuration.role.receives, !isKnown, !talks.hasHeard(id, at: turn.now) else { return true }
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
    guard gate.takeLine(from: peer, isDear: isDear, over: origin(of: arrival.link), at: turn.now) else {
      counters.tooManyLines += 1
      return false
    }
    return true
  }

  /// Mark of the device at the other end of a link.
  func mark(of link: LinkID) -> UInt32 { neighbourhood.mark(of: link) }

  mutating func handleLeave(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard let peer = neighbourhood.peers[packet.sender],
      checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn)
    else { return false }
    // A leave that is older than the peer's latest announce has no effect.
    guard packet.timestamp >= peer.announcedAt else { return false }
    let mayGoOn = neighbourhood.passOn(peer.id, at: turn.now)
    neighbourhood.leave(peer.id, at: turn.now, time: packet.timestamp)
    gossip.leave(peer.id)
    // The session of the peer ends too.
    messages.leave(peer.id, at: turn.now)
    perform(files.putOff(to: peer.id, at: turn.now), &turn)
    courier.hurry(at: turn.now)
    turn.actions.append(.gone(peer.id))
    return mayGoOn
  }

  mutating func keep(
    _ arrival: Arrival, _ packet: Packet, _ id: PacketID, of fragment: Fragment.Head? = nil,
    _ turn: inout Turn
  ) {
    guard !blocked.contains(packet.sender) else { return }
    let item = GossipArchive.Item(
      bytes: arrival.view.bytes, id: id, type: packet.type, sender: packet.sender, timestamp: packet.timestamp,
      fragment: fragment, via: mark(of: arrival.link))
    if gossip.store(item) { turn.actions.append(.keep(.gossip(item))) }
  }

  // MARK: Fragments

  private mutating func handleFragment(
    _ packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    // Nested fragments are rejected, because they could cause unlimited work.
    guard !arrival.isReassembled, let fragment = try? Fragment(reading: packet.payload), fragment.type != .fragment
    else {
      if !handleHello(packet, arrival, &turn) { counters.badFragments += 1 }
      return false
    }
    if arrival.view.recipient == nil { keep(arrival, packet, id, of: (fragment.id, fragment.type), &turn) }
    return handle(fragment, of: packet, arrival, &turn)
  }

  mutating func handle(
    _ fragment: Fragment, of packet: Packet, _ arrival: Arrival, _ turn: inout Turn
  ) -> Bool {
    let isKnown = neighbourhood.peers.has(packet.sender)
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
    guard let peer = neighbourhood.peers[packet.sender] else {
      if !gate.wait(arrival, at: turn.now) { counters.chatOfUnknown += 1 }
      return nil
    }
    guard checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn) else { return nil }
    neighbourhood.hear(peer.id, version: packet.version, at: turn.now)
    return peer
  }

  /// Whether a packet whose signature fails with the pinned key is signed with the rival key. Such a packet is relayed
  /// without other effects.
  private mutating func isOfRival(_ packet: Packet, _ arrival: Arrival, _ turn: Turn) -> Bool {
    guard let key = challenges.rival(of: packet.sender), neighbourhood.peers.has(packet.sender) else { return false }
    return checkSignature(arrival, packet, key, isKnownAnnounce: false, turn)
  }

  /// Whether the signature of a packet is valid, within the work budget of the link.
  mutating func checkSignature(
    _ arrival: Arrival, _ packet: Packet, _ key: Ed25519.PublicKey, isKnownAnnounce: Bool, _ turn: Turn
  ) -> Bool {
    !isRefused(gate.checkSignature(arrival, packet, key, isKnownAnnounce: isKnownAnnounce, at: turn.now))
  }
}
