import BitchatWire
import Common
import Crypto

extension MeshEngine {
  /// Counts the reason why a packet is dropped, if there is one.
  ///
  /// - Returns: whether there is one.
  mutating func isRefused(_ refusal: PacketGate.Refusal?) -> Bool {
    guard let refusal else { return false }
    counters[keyPath: refusal] += 1
    return true
  }

  // MARK: Chat

  /// Handles a public message.
  ///
  /// - Parameters:
  ///   - text: nil if the text is not accepted.
  ///   - liveID: ID of the message in the live dialect.
  ///   - id: ID of the packet.
  mutating func handlePublicMessage(
    _ text: PublicText?, as liveID: PacketID, _ packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    guard let peer = signer(of: packet, arrival, turn) else { return isOfRival(packet, arrival, turn) }
    guard let text else {
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
    let isKnown =
      gossip.archive.hasMessage(liveID) || liveID != id && gate.isCopy(liveID, at: turn.now)
      || translator.hasReceived(liveID, at: turn.now)
    if liveID != id { translator.note(liveID, at: turn.now) }
    keep(arrival, packet, id, &turn)
    guard configuration.role.receives, !isKnown else { return true }
    turn.actions.append(
      .heard(
        PublicMessage(
          sender: peer.id, nickname: peer.nickname, text: text.text, timestamp: packet.timestamp, packet: liveID,
          isLate: arrival.isAnswer, via: mark(of: arrival.link))))
    return true
  }

  /// Whether a public message is within the limits of its sender and of the origin of its link (`PublicMessageQuota`).
  /// Counts the message.
  mutating func takeLine(of peer: PeerID, _ arrival: Arrival, _ turn: Turn) -> Bool {
    let isDear = favourites.contains(peer) || isVerified(peer)
    guard gate.takeLine(from: peer, isDear: isDear, over: origin(of: arrival.link), at: turn.now) else {
      counters.tooManyPublicMessages += 1
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
    findOtherWays(at: turn.now)
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

  mutating func handleFragment(
    _ packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    // Nested fragments are rejected, because they could cause unlimited work.
    guard !arrival.isReassembled, let fragment = try? Fragment(reading: packet.payload), fragment.type != .fragment
    else {
      if !handleVersions(packet, arrival, &turn) { counters.badFragments += 1 }
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
    neighbourhood.handlePacket(of: peer.id, version: packet.version, at: turn.now)
    return peer
  }

  /// Whether a packet is signed with the rival key and not with the pinned one. Such a packet is relayed without other
  /// effects.
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
