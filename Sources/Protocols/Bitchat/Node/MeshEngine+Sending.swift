import Common
import Crypto

extension MeshEngine {
  /// The most bytes that one write or notification ever has.
  private static let frameLimit = Limits.frameBytes

  /// Says something to everybody.
  ///
  /// - Returns: the packet's ID and what is to be done; nil where nothing may be said yet, or no packet can carry the text.
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
    if archive.keep(item) { turn.actions.append(.keep(.gossip(item))) }
    keepSeedForm(of: signed, &turn)
    transmit(signed, as: .own, to: targets(), &turn)
    return (id, turn.actions)
  }

  /// Whether this node may send one more public message now: it keeps to the limit of a sender, because its neighbours accept no more. It
  /// counts the message.
  public mutating func takeOwnLine(at now: Instant) -> Bool { lines.takeOwn(identity.id, at: now) }

  /// Whether so many fragments of this node's messages wait for a link that it should say nothing more there for now.
  public func isFullOfFragments(_ link: LinkID) -> Bool { paced.isOwnFull(for: link) }

  /// A packet of this node with its signature; nil if no packet can have the payload.
  func signed(_ packet: Packet) -> Packet? {
    try? packet.signed(with: identity.signingKey, telling: signatures)
  }

  /// Signs a packet of this node and sends it to all.
  mutating func broadcast(_ packet: Packet, as kind: PacketClass, _ turn: inout Turn) {
    guard let signed = signed(packet) else {
      counters.unsendable += 1
      return
    }
    if packet.type == .announce, let bytes = try? signed.encoded() {
      _ = archive.keep(
        GossipArchive.Item(bytes: bytes, of: signed))
    }
    // An announce goes over every link: it shows whose the link is.
    transmit(signed, as: kind, to: kind == .announce ? links.keys : targets(), &turn)
  }

  /// One link to each device of each neighbour, and each link without a known peer, except `heardOn`. If several devices have links that count as
  /// one peer's own, all of them are used: any of them may be an attacker's that repeats the peer's announces.
  func targets(but heardOn: [LinkID] = []) -> [LinkID] {
    var chosen: [LinkID] = []
    chosen.reserveCapacity(links.count)
    for (link, state) in links where !heardOn.contains(link) {
      // Who has heard it on one link needs it on no other.
      if let peer = state.peer, isServed(peer, besides: link, state, heardOn) { continue }
      chosen.append(link)
    }
    return chosen
  }

  /// Whether the device at the other end has another link that is preferred, or that is in `heardOn`.
  private func isServed(_ peer: PeerID, besides link: LinkID, _ state: MeshLink, _ heardOn: [LinkID]) -> Bool {
    for (other, another) in links where other != link && another.peer == peer && another.origin == state.origin {
      if heardOn.contains(other) { return true }
      if state.broughtAt == 0, another.broughtAt > 0 || other.number < link.number { return true }
    }
    return false
  }

  /// The links over which a neighbour gets what is for it; none if the peer is no neighbour.
  func links(to peer: PeerID) -> [LinkID] { targets().filter { links[$0]?.peer == peer } }

  /// The same, unless the peer itself says something else: an announce shows whose link it came over, and anybody can say one again
  /// as if it came straight from the peer, for nobody signs the time to live. What is for the peer goes over all links then.
  func ownLinks(of peer: PeerID) -> [LinkID] {
    let near = links(to: peer)
    guard !near.isEmpty, let known = table[peer], known.names(identity.id) == false, let saidAt = known.neighboursAt
    else { return near }
    return ways.isDenied(by: peer, saidAt: saidAt) ? [] : near
  }

  /// Whether a peer does not name this node as its neighbour. Its own link may then be an attacker's that repeats its announces, so packets for
  /// the peer go over all links.
  func isDoubtful(_ peer: PeerID) -> Bool { table[peer]?.lacks(identity.id) ?? false }

  /// One of them.
  func ownLink(of peer: PeerID) -> LinkID? { ownLinks(of: peer).first }

  /// Whether a link has brought an announce of its peer before any other link did; one that has only repeated announces may be
  /// anybody's.
  public func hasBroughtItsPeer(_ link: LinkID) -> Bool { links[link].map { $0.broughtAt > 0 } ?? false }

  /// One of the links to a neighbour; nil if the peer is none.
  func link(to peer: PeerID) -> LinkID? { links(to: peer).first }

  /// Sends a packet of this node, in the dialect of each link, and in fragments where a link is too narrow for it.
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

  /// The fragments as dialect S has them, padded where there is room.
  private func seedFrames(of plan: FragmentPlan, _ limit: Int) -> [[UInt8]]? {
    SeedFragments.packets(of: plan, numbers: .seed)?.compactMap { fragment in
      if let padded = try? fragment.encoded(padded: true), padded.count <= limit { return padded }
      return try? fragment.encoded()
    }
  }

  private func encoded(_ packet: Packet, for targets: [LinkID]) -> [UInt8]? {
    guard let plain = try? packet.encoded() else { return nil }
    // Dialect S pads everything.
    guard configuration.padsAll || targets.contains(where: { isSeed($0) }),
      let padded = try? packet.encoded(padded: true), padded.count <= narrowest(targets)
    else {
      return plain
    }
    return padded
  }

  /// The links whose packets are padded and cut alike: those that take as much as an iPhone's, or the one link that there is; none
  /// where there are several and all are narrow.
  func common(of targets: [LinkID]) -> [LinkID] {
    guard targets.count > 1, targets.contains(where: { isNarrow($0) }) else { return targets }
    return targets.filter { !isNarrow($0) }
  }

  func isNarrow(_ link: LinkID) -> Bool { frameLimit(of: link) < Limits.commonFrameBytes }

  /// The most bytes of a frame on a link.
  func frameLimit(of link: LinkID) -> Int {
    min(Self.frameLimit, links.index(of: link).map { links.values[$0].frameLimit } ?? Self.frameLimit)
  }

  func narrowest(_ targets: [LinkID]) -> Int { targets.map { frameLimit(of: $0) }.min() ?? Self.frameLimit }

  /// Sends the bytes of a packet: as one frame to each link that takes it, and to the others in fragments, which are cut for the
  /// narrowest of the common ones among them, and for each narrower one by itself. So no link keeps a frame from another one.
  mutating func transmit(_ bytes: [UInt8], as kind: PacketClass, to targets: [LinkID], _ turn: inout Turn) {
    if MessageType(rawValue: bytes[1]).isChat { files.chatted(at: turn.now) }
    var tooNarrow: [LinkID] = []
    for link in targets {
      guard bytes.count <= frameLimit(of: link) else {
        tooNarrow.append(link)
        continue
      }
      // Of several letters none overtakes one that goes in fragments.
      let isBehind = kind == .own && bytes[1] == MessageType.courier.rawValue && paced.isOwnWaiting(for: link)
      guard !isBehind || paced.add([bytes], on: link, as: kind, in: .own, at: turn.now) == nil else { continue }
      turn.actions.append(.send(bytes, on: link, kind))
    }
    guard !tooNarrow.isEmpty else { return }
    let common = common(of: tooNarrow)
    for link in tooNarrow where !common.contains(link) { cut(bytes, as: kind, for: [link], &turn) }
    if !common.isEmpty { cut(bytes, as: kind, for: common, &turn) }
  }

  /// Sends a packet in fragments, the same to all of these links. What is a fragment itself is cut no further.
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
  /// Packets that nobody signs.
  fileprivate var isUnsigned: Bool {
    switch self {
    case .fragment, .noiseHandshake, .noiseEncrypted, .ping, .pong, SeedNumbers.seed.encrypted: true
    default: false
    }
  }
}
