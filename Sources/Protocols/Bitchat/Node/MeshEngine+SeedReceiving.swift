import Bytes
import Common
import Crypto

/// Handling of packets in dialect S, from any peer and regardless of this node's dialect. Facts: bitchat.md section
/// 16.1.
extension MeshEngine {
  /// Meaning of a packet whose type has several meanings.
  private func meaning(of packet: Packet) -> PacketMeaning {
    PacketMeaning(
      type: packet.type, payload: packet.payload,
      state: PacketMeaning.SeedState(
        awaitsHandshakeResponse: mayUseSeed(packet.sender) && messages.sessions.awaitsAnswer(from: packet.sender),
        hasSession: mayUseSeed(packet.sender) && messages.sessions.hasSession(with: packet.sender)))
  }

  /// Whether the packet answers a handshake that this node has begun in dialect S.
  func isSeedAnswer(_ packet: Packet) -> Bool {
    packet.type == SeedNumbers.seed.handshakeResponse && packet.payload.count == Limits.handshakeAnswerBytes
      && meaning(of: packet) == .seedHandshakeResponse
  }

  /// Handles a packet whose type dialect S uses, or mid-2025 used.
  ///
  /// - Returns: whether the packet is valid and may be relayed.
  mutating func handleSeedPacket(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    let isTaken: Bool
    switch meaning(of: packet) {
    case .seedMessage: isTaken = handleSeedMessage(packet, arrival, &turn)
    case .seedLeave: isTaken = handleLeave(packet, arrival, &turn)
    case .seedDeliveryAck, .deliveryAck2025:
      let ack = try? SeedDeliveryAck(reading: packet.payload)
      isTaken = handleSeedReceipt(ack?.message, of: ack?.recipient, isRead: false, packet, arrival, &turn)
    case .seedReadReceipt, .readReceipt2025:
      let receipt = try? SeedReadReceipt(reading: packet.payload)
      isTaken = handleSeedReceipt(receipt?.message, of: receipt?.reader, isRead: true, packet, arrival, &turn)
    case .seedFragment, .fragment2025:
      guard !arrival.isReassembled, let fragment = try? Fragment(reading: packet.payload) else {
        counters.badFragments += 1
        return false
      }
      isTaken = handle(fragment, of: packet, arrival, &turn)
    case .seedCiphertext:
      handleNoise(packet, arrival, &turn)
      isTaken = true
    case .drop where packet.type != SeedNumbers.seed.message:
      counters.refusedSeed += 1
      return false
    default: return true
    }
    if isTaken { counters.seedPackets += 1 }
    return isTaken
  }

  private mutating func handleSeedMessage(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard let peer = signer(of: packet, arrival, turn) else { return false }
    // Private messages must be sealed.
    guard let message = try? SeedMessage(reading: packet.payload), !message.isPrivate,
      let text = try? PublicText(message.text)
    else {
      counters.unreadable += 1
      return false
    }
    guard !blocked.contains(peer.id) else {
      counters.blocked += 1
      return true
    }
    if let recipient = arrival.view.recipient, recipient != identity.id { return true }
    guard takeLine(of: peer.id, arrival, turn) else { return false }
    let line = PacketID(
      Packet(type: .message, timestamp: packet.timestamp, sender: packet.sender, payload: text.payload))
    let isKnown =
      gate.isCopy(line, at: turn.now) || gossip.archive.hasMessage(line) || talks.hasHeard(line, at: turn.now)
    talks.note(line, at: turn.now)
    keep(arrival, packet, PacketID(packet), &turn)
    guard configuration.role.receives, !isKnown else { return true }
    turn.actions.append(
      .heard(
        PublicMessage(
          sender: peer.id, nickname: peer.nickname, text: text.text, timestamp: packet.timestamp, packet: line,
          isLate: arrival.isAnswer, via: mark(of: arrival.link))))
    return true
  }

  /// Handles a receipt in clear. The peer has signed it, and only the two peers know the ID of the message.
  private mutating func handleSeedReceipt(
    _ message: MessageUUID?, of recipient: PeerID?, isRead: Bool, _ packet: Packet, _ arrival: Arrival,
    _ turn: inout Turn
  ) -> Bool {
    guard packet.recipient == identity.id, recipient == packet.sender, neighbourhood.peers.has(packet.sender),
      let message,
      let id = try? MessageID(message.description)
    else {
      counters.refusedSeed += 1
      return false
    }
    guard let peer = signer(of: packet, arrival, turn) else { return false }
    guard !blocked.contains(peer.id) else {
      counters.blocked += 1
      return true
    }
    handleReceipt(id, from: peer.id, isRead: isRead, &turn)
    return true
  }

  // MARK: Sealed payloads

  /// Handles a sealed payload of dialect S: a complete packet with a message or a receipt. Payloads of dialect L differ
  /// in the second byte.
  ///
  /// - Returns: false for other payloads.
  mutating func handleSeedPayload(_ plaintext: [UInt8], from peer: PeerID, _ turn: inout Turn) -> Bool {
    guard plaintext.count >= Limits.smallestPacket, MessageType(rawValue: plaintext[1]).isOfSeed,
      let view = try? PacketView(plaintext), view.sender == peer,
      view.recipient.map({ $0 == identity.id }) ?? true, view.inflatedCount <= Limits.sealedSeedBytes,
      let packet = try? Packet(view)
    else { return false }
    counters.seedPackets += 1
    switch PacketMeaning(type: packet.type, payload: packet.payload) {
    case .seedMessage:
      guard let message = try? SeedMessage(reading: packet.payload),
        let told = try? PrivateMessage(ofSeed: message)
      else { break }
      handlePrivateMessage(told, from: peer, &turn)
      return true
    case .seedDeliveryAck, .deliveryAck2025:
      guard let ack = try? SeedDeliveryAck(reading: packet.payload),
        let id = try? MessageID(ack.message.description)
      else { break }
      handleReceipt(id, from: peer, isRead: false, &turn)
      return true
    case .seedReadReceipt, .readReceipt2025:
      guard let receipt = try? SeedReadReceipt(reading: packet.payload),
        let id = try? MessageID(receipt.message.description)
      else { break }
      handleReceipt(id, from: peer, isRead: true, &turn)
      return true
    default: break
    }
    counters.unreadable += 1
    return true
  }
}
