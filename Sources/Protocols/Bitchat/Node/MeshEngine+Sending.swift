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
    keepSeedForm(of: signed, &turn)
    transmit(signed, as: .own, to: targets(), &turn)
    return (id, turn.actions)
  }

  /// Whether this node may send another public message now. It keeps to the limit per sender, because neighbours accept
  /// no more. Counts the message.
  public mutating func takeOwnLine(at now: Instant) -> Bool { gate.takeOwnLine(identity.id, at: now) }

  /// Whether the fragments of own messages that wait for a link have reached a limit, so that new messages should wait.
  public func isFullOfFragments(_ link: LinkID) -> Bool { paced.isOwnFull(for: link) }

  /// Signs a packet of this node; nil if the payload is too long.
  func signed(_ packet: Packet) -> Packet? {
    try? packet.signed(with: identity.signingKey, telling: signatures)
  }

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
    transmit(signed, as: kind, to: kind == .announce ? links.keys : targets(), &turn)
  }

  /// One link to each device of each neighbour, and each link without a known peer, except `heardOn`.
  func targets(but heardOn: [LinkID] = []) -> [LinkID] { links.targets(but: heardOn) }

  /// Links over which packets for a neighbour are sent; empty if the peer is not a neighbour.
  func links(to peer: PeerID) -> [LinkID] { links.links(to: peer) }

  /// Own links of a neighbour; empty if the peer's own neighbour list denies them.
  func ownLinks(of peer: PeerID) -> [LinkID] { links.ownLinks(of: peer, own: identity.id, table, ways) }

  /// Whether a peer does not name this node as its neighbour. Its own link may then be an attacker's that replays
  /// announces, so packets for the peer go over all links.
  func isDoubtful(_ peer: PeerID) -> Bool { table[peer]?.lacks(identity.id) ?? false }

  /// First own link of a peer, if any.
  func ownLink(of peer: PeerID) -> LinkID? { ownLinks(of: peer).first }

  /// Whether a link delivered an announce of its peer before any other link. A link with only repeated announces may be
  /// an attacker's.
  public func hasBroughtItsPeer(_ link: LinkID) -> Bool { links[link].map { $0.broughtAt > 0 } ?? false }

  /// First link to a neighbour; nil if the peer is not one.
  func link(to peer: PeerID) -> LinkID? { links(to: peer).first }

  /// Sends a packet of this node in the dialect of each link, and in fragments where a link is too narrow.
  mutating func transmit(_ packet: Packet, as kind: PacketClass, to targets: [LinkID], _ turn: inout Turn) {
    guard configuration.speaksSeed else { return put(packet, as: kind, on: targets, &turn) }
    for form in forms(of: packet, for: targets, at: turn.now) where !form.links.isEmpty {
      put(form.packet, as: kind, on: form.links, &turn)
    }
  }

  private mutating func put(_ packet: Packet, as kind: PacketClass, on targets: [LinkID], _ turn: inout Turn) {
    var packet = packet
    if packet.signature == nil, !packet.type.isUnsigned, let signed = signed(packet) {
      packet = signed
    }
    let common = common(of: targets)
    for link in targets where !common.contains(link) { put(packet, as: kind, on: [link], &turn) }
    guard !common.isEmpty else { return }
    guard let bytes = encoded(packet, for: common) else {
      counters.unsendable += 1
      return
    }
    transmit(bytes, as: kind, to: common, &turn)
  }

  /// Fragments in dialect S, padded where the frame size allows it.
  private func seedFrames(of plan: FragmentPlan, _ limit: Int) -> [[UInt8]]? {
    SeedFragments.packets(of: plan, numbers: .seed)?.compactMap { fragment in
      if let padded = try? fragment.encoded(padded: true), padded.count <= limit { return padded }
      return try? fragment.encoded()
    }
  }

  private func encoded(_ packet: Packet, for targets: [LinkID]) -> [UInt8]? {
    guard let plain = try? packet.encoded() else { return nil }
    // Dialect S pads all packets.
    guard configuration.padsAll || targets.contains(where: { isSeed($0) }),
      let padded = try? packet.encoded(padded: true), padded.count <= narrowest(targets)
    else {
      return plain
    }
    return padded
  }

  /// Links whose packets are padded and fragmented alike: those at least as wide as an iPhone's, or a single link.
  /// Empty if there are several and all are narrow.
  func common(of targets: [LinkID]) -> [LinkID] {
    guard targets.count > 1, targets.contains(where: { isNarrow($0) }) else { return targets }
    return targets.filter { !isNarrow($0) }
  }

  func isNarrow(_ link: LinkID) -> Bool { links.isNarrow(link) }

  /// Maximum length of a frame on a link, in bytes.
  func frameLimit(of link: LinkID) -> Int { links.frameLimit(of: link) }

  func narrowest(_ targets: [LinkID]) -> Int { links.narrowest(targets) }

  /// Sends an encoded packet: in one frame where it fits, otherwise in fragments. These are cut once for the narrowest
  /// common link, and separately for each narrower one, so that no link affects others.
  mutating func transmit(_ bytes: [UInt8], as kind: PacketClass, to targets: [LinkID], _ turn: inout Turn) {
    if MessageType(rawValue: bytes[1]).isChat { files.chatted(at: turn.now) }
    var tooNarrow: [LinkID] = []
    for link in targets {
      guard bytes.count <= frameLimit(of: link) else {
        tooNarrow.append(link)
        continue
      }
      // Envelopes must not overtake an earlier one that is sent in fragments.
      let isBehind = kind == .own && bytes[1] == MessageType.courier.rawValue && paced.isOwnWaiting(for: link)
      guard !isBehind || paced.add([bytes], on: link, as: kind, in: .own, at: turn.now) == nil else { continue }
      turn.actions.append(.send(bytes, on: link, kind))
    }
    guard !tooNarrow.isEmpty else { return }
    let common = common(of: tooNarrow)
    for link in tooNarrow where !common.contains(link) { cut(bytes, as: kind, for: [link], &turn) }
    if !common.isEmpty { cut(bytes, as: kind, for: common, &turn) }
  }

  /// Sends a packet in the same fragments to all of these links. A fragment is not fragmented again.
  private mutating func cut(_ bytes: [UInt8], as kind: PacketClass, for targets: [LinkID], _ turn: inout Turn) {
    let limit = narrowest(targets)
    guard let view = try? PacketView(bytes), view.type != .fragment,
      let id = try? FragmentID(reading: random.bytes(FragmentID.size)),
      let plan = FragmentPlan(view, id: id, frameLimit: limit)
    else {
      counters.unsendable += 1
      return
    }
    let frames = plan.fragments.compactMap { try? $0.encoded() }
    let lane: PacedPackets.Lane = view.sender == identity.id && kind != .syncAnswer ? .own : .passedOn(from: nil)
    let inSeed = seedLinks
    let seedFrames = inSeed.isEmpty ? nil : seedFrames(of: plan, limit)
    for link in targets {
      let seedFrames = inSeed.contains(link) ? seedFrames : nil
      let dropped = paced.add(
        seedFrames ?? frames, on: link, as: kind == .own ? .own : .fragment, in: lane,
        pause: seedFrames == nil ? PacedPackets.pause : SeedTalks.fragmentPause, at: turn.now)
      if dropped == nil, lane == .own {
        counters.unsendable += 1
      } else {
        counters.relaysDropped += UInt64(dropped ?? 1)
      }
    }
  }
}

extension MessageType {
  /// Whether packets of this type have no signature.
  fileprivate var isUnsigned: Bool {
    switch self {
    case .fragment, .noiseHandshake, .noiseEncrypted, .ping, .pong, SeedNumbers.seed.encrypted: true
    default: false
    }
  }
}
