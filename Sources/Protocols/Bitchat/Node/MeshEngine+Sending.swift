import BitchatWire
import Common
import Crypto

extension MeshEngine {
  /// Sends a public message.
  ///
  /// - Returns: the packet's ID and the actions; nil if sending is not allowed yet, or the text is empty or too long.
  public mutating func say(_ text: String, at now: Instant, time: UInt64) -> (packet: PacketID, actions: [Action])? {
    isDueKnown = false
    guard canSend, let payload = try? PublicText(text).payload, !payload.isEmpty else { return nil }
    var turn = Turn(now: now, time: time)
    var packet = Packet(type: .message, timestamp: timestamp(turn), sender: identity.id, payload: payload)
    if payload.count > Int(UInt16.max) { packet.version = .v2 }
    guard let signed = signed(packet), let bytes = try? signed.encoded() else { return nil }
    let id = PacketID(signed)
    let item = GossipArchive.Item(
      bytes: bytes, id: id, type: .message, sender: identity.id, timestamp: signed.timestamp)
    if gossip.store(item) { turn.actions.append(.keep(.gossip(item))) }
    if let form = translated(signed).flatMap({ self.signed($0) }), let bytes = try? form.encoded() {
      // Neighbours of another dialect request the message in their form.
      let item = GossipArchive.Item(bytes: bytes, of: form)
      if gossip.store(item) { turn.actions.append(.keep(.gossip(item))) }
    }
    transmit(signed, as: .own, to: targets(), &turn)
    return (id, turn.actions)
  }

  /// Whether this node may send another public message now. It respects the limit per sender, because neighbours accept
  /// no more. Counts the message.
  public mutating func takeOwnLine(at now: Instant) -> Bool { gate.takeOwnLine(identity.id, at: now) }

  /// Whether the fragments of own messages that wait for a link have reached a limit, so that new messages should wait.
  public func isFullOfFragments(_ link: LinkID) -> Bool { transmitter.paced.isOwnFull(for: link) }

  /// Signs a packet of this node; nil if the payload is too long.
  func signed(_ packet: Packet) -> Packet? { transmitter.signed(packet) }

  /// Signs a packet of this node and sends it over all links.
  mutating func broadcast(_ packet: Packet, as kind: PacketClass, _ turn: inout Turn) {
    guard let signed = signed(packet) else {
      counters.unsendable += 1
      return
    }
    if packet.type == .announce, let bytes = try? signed.encoded() {
      _ = gossip.store(
        GossipArchive.Item(bytes: bytes, of: signed))
    }
    // An announce is sent over every link, because it shows whose link it is.
    transmit(signed, as: kind, to: kind == .announce ? neighbourhood.links.keys : targets(), &turn)
  }

  /// One link to each device of each neighbour, and each link without a known peer, except `heardOn`.
  func targets(but heardOn: [LinkID] = []) -> [LinkID] { neighbourhood.links.targets(but: heardOn) }

  /// Links over which packets for a neighbour are sent; empty if the peer is not a neighbour.
  func links(to peer: PeerID) -> [LinkID] { neighbourhood.links.links(to: peer) }

  /// Own links of a neighbour; empty if the peer's own neighbour list denies them.
  func ownLinks(of peer: PeerID) -> [LinkID] { neighbourhood.ownLinks(of: peer) }

  /// Whether a link delivered an announce of its peer before any other link. A link with only repeated announces may be
  /// an attacker's.
  public func hasBroughtItsPeer(_ link: LinkID) -> Bool { neighbourhood.links[link].map { $0.broughtAt > 0 } ?? false }

  /// First link to a neighbour; nil if the peer is not one.
  func link(to peer: PeerID) -> LinkID? { links(to: peer).first }

  /// Facts about the links, and how packets are encoded for them.
  private func channel(_ turn: Turn) -> Transmitter.Channel {
    Transmitter.Channel(
      now: turn.now, links: neighbourhood.links, padsAll: configuration.padsAll, dialects: linkDialects)
  }

  /// Sends a packet of this node in the dialect of each link, and in fragments where a link is too narrow.
  mutating func transmit(_ packet: Packet, as kind: PacketClass, to targets: [LinkID], _ turn: inout Turn) {
    for form in forms(of: packet, for: targets, turn) where !form.links.isEmpty {
      perform(
        transmitter.send(form.packet, as: kind, to: form.links, channel(turn), randomFrom: &random), &turn)
    }
  }

  /// Sends a ping or its answer to a peer.
  ///
  /// - Parameter link: nil for the links to the peer, or all links if it is not a neighbour.
  mutating func send(
    _ payload: PingPayload, as type: MessageType, in kind: PacketClass = .own, to peer: PeerID,
    over link: LinkID? = nil, _ turn: inout Turn
  ) {
    let packet = Packet(
      type: type, timestamp: timestamp(turn), sender: identity.id, recipient: peer, payload: payload.bytes)
    transmit(packet, as: kind, to: link.map { [$0] } ?? Transmitter.links(forPingTo: peer, view(turn)), &turn)
  }

  /// Sends an encoded packet: in one frame where it fits, otherwise in fragments.
  mutating func transmit(_ bytes: [UInt8], as kind: PacketClass, to targets: [LinkID], _ turn: inout Turn) {
    perform(transmitter.send(bytes, as: kind, to: targets, channel(turn), randomFrom: &random), &turn)
  }
}
