import BitchatWire
import Common
import Crypto

/// Sends packets over links: signs those of this node, pads them, cuts them into fragments where a link is too narrow,
/// and paces fragments so that a phone can follow. It also chooses the links of packets for one peer.
struct Transmitter: Sendable {
  private let own: PeerID
  private let signingKey: Ed25519.PrivateKey
  private let signatures: any SignatureChecking
  /// Packets that leave at intervals, so that a phone can follow.
  private(set) var paced = PacedPackets()

  /// - Parameters:
  ///   - own: this node.
  ///   - signingKey: signs the packets of this node.
  ///   - signatures: gets the signatures that this node makes.
  init(own: PeerID, signingKey: Ed25519.PrivateKey, signatures: any SignatureChecking) {
    self.own = own
    self.signingKey = signingKey
    self.signatures = signatures
  }

  /// Next time at which `takeDue` has work; nil if no packet waits.
  var deadline: Instant? { paced.deadline }

  /// Signs a packet of this node; nil if the payload is too long.
  func signed(_ packet: Packet) -> Packet? { try? packet.signed(with: signingKey, telling: signatures) }

  // MARK: Packets

  /// Facts about the links, and how packets are encoded for them.
  struct Channel {
    let now: Instant
    let links: LinkTable<MeshLink>
    /// Whether packets are padded where possible.
    let padsAll: Bool
    let dialects: LinkDialects
  }

  /// Sends a packet of this node, in fragments where a link is too narrow.
  mutating func send(
    _ packet: Packet, as kind: PacketClass, to targets: [LinkID], _ channel: Channel,
    randomFrom random: inout some RandomSource
  ) -> [Intent] {
    var packet = packet
    if packet.signature == nil, !packet.type.isUnsigned, let signed = signed(packet) { packet = signed }
    let common = Self.common(of: targets, channel.links)
    var intents: [Intent] = []
    for link in targets where !common.contains(link) {
      intents += send(encodedFor: [link], packet, as: kind, channel, randomFrom: &random)
    }
    if !common.isEmpty { intents += send(encodedFor: common, packet, as: kind, channel, randomFrom: &random) }
    return intents
  }

  private mutating func send(
    encodedFor targets: [LinkID], _ packet: Packet, as kind: PacketClass, _ channel: Channel,
    randomFrom random: inout some RandomSource
  ) -> [Intent] {
    guard let bytes = Self.encoded(packet, for: targets, channel) else { return [.count(\.unsendable)] }
    return send(bytes, as: kind, to: targets, channel, randomFrom: &random)
  }

  private static func encoded(_ packet: Packet, for targets: [LinkID], _ channel: Channel) -> [UInt8]? {
    guard let plain = try? packet.encoded() else { return nil }
    guard channel.padsAll || targets.contains(where: { channel.dialects[$0].padsAll }),
      let padded = try? packet.encoded(padded: true), padded.count <= channel.links.narrowest(targets)
    else {
      return plain
    }
    return padded
  }

  /// Links whose packets are padded and fragmented alike: those at least as wide as an iPhone's, or a single link.
  /// Empty if there are several and all are narrow.
  private static func common(of targets: [LinkID], _ links: LinkTable<MeshLink>) -> [LinkID] {
    guard targets.count > 1, targets.contains(where: { links.isNarrow($0) }) else { return targets }
    return targets.filter { !links.isNarrow($0) }
  }

  /// Sends an encoded packet: in one frame where it fits, otherwise in fragments. These are cut once for the narrowest
  /// common link, and separately for each narrower one, so that no link affects others.
  mutating func send(
    _ bytes: [UInt8], as kind: PacketClass, to targets: [LinkID], _ channel: Channel,
    randomFrom random: inout some RandomSource
  ) -> [Intent] {
    let type = MessageType(rawValue: bytes[1])
    var intents: [Intent] = []
    intents.reserveCapacity(targets.count + 1)
    if type.isChat { intents.append(.chatted) }
    var tooNarrow: [LinkID] = []
    for link in targets {
      guard bytes.count <= channel.links.frameLimit(of: link) else {
        tooNarrow.append(link)
        continue
      }
      // Envelopes must not overtake an earlier one that is sent in fragments.
      let isBehind = kind == .own && type == .courier && paced.isOwnWaiting(for: link)
      guard !isBehind || paced.add([bytes], on: link, as: kind, in: .own, at: channel.now) == nil else { continue }
      intents.append(.report(.send(bytes, on: link, kind)))
    }
    guard !tooNarrow.isEmpty else { return intents }
    let common = Self.common(of: tooNarrow, channel.links)
    for link in tooNarrow where !common.contains(link) {
      intents += cut(bytes, as: kind, for: [link], channel, randomFrom: &random)
    }
    if !common.isEmpty { intents += cut(bytes, as: kind, for: common, channel, randomFrom: &random) }
    return intents
  }

  /// Sends a packet in the same fragments to all of these links. A fragment is not fragmented again.
  private mutating func cut(
    _ bytes: [UInt8], as kind: PacketClass, for targets: [LinkID], _ channel: Channel,
    randomFrom random: inout some RandomSource
  ) -> [Intent] {
    let limit = channel.links.narrowest(targets)
    guard let view = try? PacketView(bytes), view.type != .fragment,
      let id = try? FragmentID(reading: random.bytes(FragmentID.size)),
      let plan = FragmentPlan(view, id: id, frameLimit: limit)
    else { return [.count(\.unsendable)] }
    let lane: PacedPackets.Lane = view.sender == own && kind != .syncAnswer ? .own : .passedOn(from: nil)
    var cuts: [MeshDialect: (frames: [[UInt8]], pause: Duration)] = [:]
    return targets.map { link in
      let dialect = channel.dialects[link]
      let cut = cuts[dialect] ?? dialect.frames(of: plan, limit: limit)
      cuts[dialect] = cut
      let dropped = paced.add(
        cut.frames, on: link, as: kind == .own ? .own : .fragment, in: lane, pause: cut.pause, at: channel.now)
      guard dropped != nil || lane != .own else { return .count(\.unsendable) }
      return .count(\.relaysDropped, by: UInt64(dropped ?? 1))
    }
  }

  // MARK: Pacing

  /// Paces a fragment of another node for a phone that cannot follow the speed of arrival. If the queue is full, the
  /// fragment is dropped; the phone requests it.
  ///
  /// - Parameter source: link that the fragment arrived on; nil for a sync answer.
  mutating func pace(
    _ fragment: [UInt8], as kind: PacketClass, on link: LinkID, from source: LinkID?, at now: Instant
  ) -> Intent {
    let dropped = paced.add([fragment], on: link, as: kind, in: .passedOn(from: source), at: now)
    return .count(\.relaysDropped, by: UInt64(dropped ?? 1))
  }

  /// Removes and returns the paced packets to be sent now, in order.
  ///
  /// - Parameter isShared: whether fragments of an own file also wait for the link, and alternate with these packets.
  mutating func takeDue(at now: Instant, isShared: (LinkID) -> Bool) -> [PacedPackets.Packet] {
    paced.takeDue(at: now, isShared: isShared)
  }

  /// Delays paced packets after a fragment of a file on this link.
  mutating func giveWay(on link: LinkID, at now: Instant) { paced.giveWay(on: link, at: now) }

  /// Removes the paced packets of a file.
  mutating func withdraw(_ packets: FilePackets) { paced.remove(where: packets.contains) }

  /// Removes the packets that wait for a link.
  mutating func forget(_ link: LinkID) { paced.forget(link) }

  /// Removes all waiting packets when this node leaves.
  mutating func endAll() { paced = PacedPackets() }

  // MARK: Links for one peer

  /// A packet, and the links that it is sent over.
  typealias Path = (packet: Packet, links: [LinkID])

  /// Chooses the links of a Noise message.
  ///
  /// A neighbour gets it over its own links and those that its announces arrive over. Another peer gets it by a known
  /// route, else over all links. All links are also used while the peer has not answered earlier messages, or does not
  /// name this node as its neighbour.
  ///
  /// - Parameters:
  ///   - isUnanswered: whether the peer has not answered earlier messages.
  ///   - dialect: dialect in which the packet reaches the peer.
  static func paths(
    of packet: Packet, to peer: PeerID, isUnanswered: Bool, in dialect: MeshDialect, _ view: NodeView
  ) -> [Path] {
    var packet = packet
    let own = view.ownLinks(of: peer)
    if !own.isEmpty, !isUnanswered {
      guard !view.isDoubtful(peer) else { return [(packet, view.links.targets())] }
      let direct: Path = (packet, own)
      let others = view.ways.others(to: peer, besides: own, at: view.now)
      guard let farthest = others.map(\.hops).max() else { return [direct] }
      // If the peer names this node as its neighbour, one hop more than its announces took is enough.
      if view.peers[peer]?.names(view.own) == true {
        packet.timeToLive = UInt8(clamping: min(farthest + 1, Int(Limits.timeToLive)))
      }
      return [direct, (packet, others.map(\.link))]
    }
    // A hop that does not relay would otherwise be used forever.
    if !isUnanswered, packet.type != .noiseHandshake, let route = route(to: peer, in: dialect, view),
      let first = route.first, case let hop = view.links.links(to: first), !hop.isEmpty
    {
      (packet.version, packet.route) = (.v2, route)
      return [(packet, hop)]
    }
    return [(packet, view.links.targets())]
  }

  /// Returns a known route to a peer; nil if there is none, or the peer does not support routes.
  ///
  /// - Parameter dialect: dialect in which packets reach the peer.
  static func route(to peer: PeerID, in dialect: MeshDialect, _ view: NodeView) -> [PeerID]? {
    guard view.peers[peer]?.version == .v2, dialect.hasRoutes else { return nil }
    let topology = Topology(own: view.own, neighbours: view.neighbours, peers: view.peers.peers.values, at: view.now)
    return topology.route(from: view.own, to: peer) { view.peers[$0]?.version == .v2 }
  }

  /// Chooses the links of a ping or its answer: those to the peer, or all if it is not a neighbour or does not name
  /// this node as its neighbour.
  static func links(forPingTo peer: PeerID, _ view: NodeView) -> [LinkID] {
    let direct = view.links.links(to: peer)
    let known = direct + view.ways.others(to: peer, besides: direct, at: view.now).map(\.link)
    return known.isEmpty || view.isDoubtful(peer) ? view.links.targets() : known
  }
}

extension MessageType {
  /// Whether packets of this type have no signature.
  fileprivate var isUnsigned: Bool {
    switch inLive {
    case .fragment, .noiseHandshake, .noiseEncrypted, .ping, .pong: true
    default: false
    }
  }
}
