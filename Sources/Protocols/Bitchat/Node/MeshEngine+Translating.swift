import BitchatWire
import Common
import Crypto

/// Packets that `Translator` converts from another dialect.
extension MeshEngine {
  /// The dialect in which packets are sent over each link.
  var linkDialects: LinkDialects { translator.dialects(of: neighbourhood.links, neighbourhood.peers) }

  /// Dialect in which packets reach a peer: S if the peer and all nodes on a route to it speak it.
  func reach(of peer: PeerID, _ turn: Turn) -> MeshDialect { translator.reach(of: peer, view(turn)) }

  // MARK: Sending

  /// Returns the forms in which a packet of this node is sent, each with its links.
  func forms(of packet: Packet, for targets: [LinkID], _ turn: Turn) -> [(packet: Packet, links: [LinkID])] {
    translator.forms(of: packet, for: targets, view(turn))
  }

  /// Returns a public packet of this node in another dialect; nil if the dialect has no such form, or no peer needs it.
  func translated(_ packet: Packet) -> Packet? { translator.form(of: packet) }

  /// Returns the form in which a private payload is sent to a peer.
  mutating func privateForm(of payload: NoisePayload, for peer: PeerID, _ turn: Turn) -> Translator.PrivateForm {
    guard translator.isActive else { return .sealed(payload.bytes) }
    let view = view(turn)
    return translator.form(of: payload, for: peer, view, randomFrom: &random)
  }

  /// Announces this node after a session with a peer was established, if the peer's dialect requires it.
  mutating func announce(afterSessionWith peer: PeerID, _ turn: inout Turn) {
    let view = view(turn)
    if let link = translator.linkToAnnounce(afterSessionWith: peer, view) { announce(on: link, &turn) }
  }

  // MARK: Receiving

  /// Whether a packet is a handshake message, and not a sealed payload.
  func isHandshake(_ packet: Packet, _ turn: Turn) -> Bool { translator.isHandshake(packet, view(turn)) }

  /// Translates a sealed payload; nil if it is in the live dialect.
  func translated(sealed plaintext: [UInt8], from peer: PeerID) -> Translator.SealedContent? {
    translator.translate(sealed: plaintext, from: peer)
  }

  /// Handles a packet of a translated type.
  ///
  /// - Returns: whether the packet is valid and may be relayed.
  mutating func handleTranslated(
    _ packet: Packet, _ arrival: Arrival, _ id: PacketID, _ turn: inout Turn
  ) -> Bool {
    let isTaken: Bool
    switch translator.translate(packet, view(turn)) {
    case .message(let line): isTaken = handlePublicMessage(line?.text, as: line?.id ?? id, packet, arrival, id, &turn)
    case .leave: isTaken = handleLeave(packet, arrival, &turn)
    case .receipt(let message, let isRead): isTaken = handleReceipt(message, isRead: isRead, packet, arrival, &turn)
    case .fragment(let fragment):
      guard !arrival.isReassembled else {
        counters.badFragments += 1
        return false
      }
      isTaken = handle(fragment, of: packet, arrival, &turn)
    case .noise:
      handleNoise(packet, arrival, &turn)
      isTaken = true
    case .refused:
      counters.refusedTranslations += 1
      return false
    case .live: return true
    }
    if isTaken { counters.translatedPackets += 1 }
    return isTaken
  }

  /// Handles a signed receipt in clear.
  private mutating func handleReceipt(
    _ message: MessageID, isRead: Bool, _ packet: Packet, _ arrival: Arrival, _ turn: inout Turn
  ) -> Bool {
    guard let peer = signer(of: packet, arrival, turn) else { return false }
    guard !blocked.contains(peer.id) else {
      counters.blocked += 1
      return true
    }
    handleReceipt(message, from: peer.id, isRead: isRead, &turn)
    return true
  }

  /// Handles a neighbour's version hello, or its answer to one.
  ///
  /// - Returns: false if the packet is neither.
  mutating func handleVersions(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard let message = translator.versionMessage(in: packet) else { return false }
    guard translator.isExpected(message, in: packet, arrival, view(turn)),
      let key = neighbourhood.peers.signingKey(of: packet.sender),
      checkSignature(arrival, packet, key, isKnownAnnounce: false, turn)
    else {
      counters.refusedTranslations += 1
      return true
    }
    counters.translatedPackets += 1
    perform(translator.handle(message, from: packet.sender, on: arrival.link, view(turn), &clock), &turn)
    return true
  }
}
