import Bytes
import Common
import Crypto

/// Selection of the dialect. Facts: bitchat.md section 16.1.
///
/// Dialect S is used only on links whose peer speaks it, because the apps would relay it over seven hops. This node
/// sends its own packets in the dialect of each link. Packets of others cannot be translated, because their signatures
/// would become invalid.
extension MeshEngine {
  /// Dialect in which this node addresses a peer. A configured dialect comes first. Dialect S is used if this node
  /// prefers it, and the peer has announced it or has sent a hello over its own link. Otherwise dialect L.
  func dialect(of peer: PeerID) -> MeshDialect {
    guard configuration.speaksSeed else { return .live }
    if let chosen = configuration.dialects[peer] { return chosen }
    guard configuration.dialect == .seed else { return .live }
    return neighbourhood.peers[peer]?.speaksSeed == true || talks.hasGreeted(peer) ? .seed : .live
  }

  /// Whether this node uses dialect S on a link.
  func isSeed(_ link: LinkID) -> Bool {
    guard configuration.speaksSeed, let peer = neighbourhood.links[link]?.peer else { return false }
    return dialect(of: peer) == .seed
  }

  /// Whether packet types of dialect S are accepted from a peer: it announces S, or is addressed in it.
  func mayUseSeed(_ peer: PeerID) -> Bool {
    neighbourhood.peers[peer]?.speaksSeed == true || dialect(of: peer) == .seed
  }

  /// Links on which this node uses dialect S.
  var seedLinks: Set<LinkID> { configuration.speaksSeed ? Set(neighbourhood.links.keys.filter { isSeed($0) }) : [] }

  /// Whether a packet reaches a peer in dialect S: the peer and all nodes on a route to it speak it.
  func isReachedInSeed(_ peer: PeerID, at now: Instant) -> Bool {
    guard dialect(of: peer) == .seed else { return false }
    let near = neighbours
    guard !near.contains(peer) else { return true }
    let topology = Topology(own: identity.id, neighbours: near, peers: neighbourhood.peers.peers.values, at: now)
    return topology.route(from: identity.id, to: peer) { dialect(of: $0) == .seed } != nil
  }

  /// Whether a peer beyond the neighbours speaks dialect L, so that public messages must be sent in both dialects.
  var hasLivePeersBehind: Bool {
    let near = neighbours
    return neighbourhood.peers.peers.keys.contains { !near.contains($0) && dialect(of: $0) == .live }
  }

  // MARK: The forms of a packet

  /// Returns the forms in which a packet of this node is sent, each with its links.
  func forms(of packet: Packet, for targets: [LinkID], at now: Instant) -> [(packet: Packet, links: [LinkID])] {
    let seed = targets.filter { isSeed($0) }
    guard !seed.isEmpty else { return packet.type.isOfSeedAlone ? [] : [(packet, targets)] }
    let live = targets.filter { !isSeed($0) }
    if let form = seedForm(of: packet) {
      return [(form, seed), (packet, hasLivePeersBehind ? seed : []), (packet, live)]
    }
    guard let recipient = packet.recipient, recipient != .everybody, isReachedInSeed(recipient, at: now) else {
      return [(packet, seed), (packet, live)]
    }
    return [(packet.forSeed, seed)]
  }

  /// Returns a public packet of this node in dialect S; nil if there is no such form, or the text is too long. The
  /// result is deterministic.
  private func seedForm(of packet: Packet) -> Packet? {
    var form = Packet(
      type: SeedNumbers.seed.leave, timestamp: packet.timestamp, sender: packet.sender, recipient: .everybody,
      payload: [])
    switch packet.type {
    case .leave: return form
    case .message:
      guard packet.payload.count <= Int(UInt16.max) else { return nil }
      let id = MessageUUID(packet: PacketID(packet))
      let message = SeedMessage(
        timestamp: packet.timestamp, id: id.description, sender: configuration.nickname,
        text: String(decoding: packet.payload, as: UTF8.self))
      (form.type, form.payload) = (SeedNumbers.seed.message, message.bytes)
      if form.payload.count > Int(UInt16.max) { form.version = .v2 }
      return form
    default: return nil
    }
  }

  /// Archives the form of an own public message in dialect S, for sync requests.
  mutating func keepSeedForm(of line: Packet, _ turn: inout Turn) {
    guard configuration.speaksSeed, let form = seedForm(of: line).flatMap(signed), let bytes = try? form.encoded()
    else { return }
    let item = GossipArchive.Item(bytes: bytes, of: form)
    if gossip.store(item) { turn.actions.append(.keep(.gossip(item))) }
  }

  // MARK: Private messages

  /// Sends a private message or a receipt in dialect S.
  ///
  /// - Returns: false if it must be sent in dialect L, because the peer is not reached in S or S has no form for it.
  mutating func sealInSeed(_ payload: NoisePayload, for peer: PeerID, _ turn: inout Turn) -> Bool {
    guard isReachedInSeed(peer, at: turn.now) else { return false }
    switch payload {
    case .privateMessage(let message):
      var said = SeedMessage(
        timestamp: turn.time, id: message.id.text, sender: configuration.nickname, text: message.text)
      said.isPrivate = true
      said.recipientNickname = neighbourhood.peers[peer]?.nickname
      let inner = Packet(
        type: SeedNumbers.seed.message, timestamp: turn.time, sender: identity.id, recipient: peer, payload: said.bytes)
      guard let plaintext = try? inner.encoded(),
        let sealed = try? messages.encrypt(plaintext, for: peer, at: turn.now)
      else { return true }
      send(sealed, as: .noiseEncrypted, to: peer, .own, &turn)
    case .delivered(let id):
      let ack = (try? MessageUUID(of: id)).flatMap { message in
        try? SeedDeliveryAck(
          message: message, ack: MessageUUID(randomFrom: &random), recipient: identity.id,
          hops: UInt8(clamping: neighbourhood.peers[peer]?.hops ?? 1), timestamp: turn.time,
          nickname: configuration.nickname)
      }
      guard let ack else { return false }
      send(ack.bytes, as: SeedNumbers.seed.deliveryAck, to: peer, .own, &turn)
    case .read(let id):
      let receipt = (try? MessageUUID(of: id)).flatMap { message in
        try? SeedReadReceipt(
          message: message, receipt: MessageUUID(randomFrom: &random), reader: identity.id, timestamp: turn.time,
          nickname: configuration.nickname)
      }
      guard let receipt else { return false }
      send(receipt.bytes, as: SeedNumbers.seed.readReceipt, to: peer, .own, &turn)
    default: return false
    }
    return true
  }

  /// Announces this node over the link of a dialect S peer after a session was established. The peer does the same.
  mutating func announceInSeed(to peer: PeerID, _ turn: inout Turn) {
    guard configuration.speaksSeed, let link = link(to: peer), isSeed(link) else { return }
    announce(on: link, &turn)
  }

  // MARK: Versions

  /// Sends a hello to neighbours that speak dialect S by announce or by configuration.
  mutating func greetNeighbours(_ turn: inout Turn) {
    guard configuration.speaksSeed else { return }
    talks.expire(at: turn.now)
    guard canSend, configuration.role.converses else { return }
    for link in neighbourhood.links.keys {
      guard let peer = neighbourhood.links[link]?.peer, talks[link]?.peer != peer || talks[link]?.greetedAt == nil
      else { continue }
      let isProven = configuration.dialects[peer] == .seed || neighbourhood.peers[peer]?.speaksSeed == true
      guard isProven, dialect(of: peer) == .seed, let hello = Self.hello else { continue }
      talks.greet(peer, on: link, at: turn.now)
      say(\.versionHello, hello.bytes, to: peer, on: link, &turn)
    }
  }

  /// Handles a neighbour's version hello.
  ///
  /// - Returns: false if the packet is not a hello.
  mutating func handleHello(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard let hello = try? VersionHello(payload: packet.payload) else { return false }
    let wanted = configuration.dialects[packet.sender] ?? configuration.dialect
    guard wanted == .seed, let peer = speaker(of: packet, arrival, turn) else {
      counters.refusedSeed += 1
      return true
    }
    counters.seedPackets += 1
    guard talks.hear(peer.id, on: arrival.link, at: turn.now), canSend else { return true }
    let agreed = hello.versions.max { $0.rawValue < $1.rawValue }
    if agreed == .v2 { neighbourhood.hear(peer.id, version: .v2, at: turn.now) }
    let answer = try? VersionAck(
      agreed: agreed?.rawValue ?? 0, serverVersion: Self.clientVersion, platform: Self.platform,
      isRejected: agreed == nil, reason: agreed == nil ? "no common version" : nil)
    if let answer { say(\.versionAck, answer.bytes, to: peer.id, on: arrival.link, &turn) }
    return true
  }

  /// Handles a neighbour's answer to this node's hello.
  ///
  /// - Returns: false if the packet is a sync request instead.
  mutating func handleVersionAck(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard !packet.payload.starts(with: [0x01, 0x00, 0x01]), let ack = try? VersionAck(payload: packet.payload) else {
      return false
    }
    guard let talk = talks[arrival.link], talk.greetedAt != nil, talk.agreed == nil,
      let peer = speaker(of: packet, arrival, turn), peer.id == talk.peer
    else {
      counters.refusedSeed += 1
      return true
    }
    counters.seedPackets += 1
    guard !ack.isRejected, let version = PacketVersion(rawValue: ack.agreed) else {
      cut(arrival.link, .incompatible, &turn)
      return true
    }
    talks.agree(on: version, with: peer.id, on: arrival.link)
    if version == .v2 { neighbourhood.hear(peer.id, version: .v2, at: turn.now) }
    // The node with the smaller ID begins the session, or the only one that has sent a hello.
    if identity.id < peer.id || !talk.hasGreeted { handleSession(.begin(peer.id), &turn) }
    return true
  }

  /// Returns the neighbour that sent a packet directly to this node, over its own link and with a valid signature; nil
  /// otherwise.
  private mutating func speaker(of packet: Packet, _ arrival: Arrival, _ turn: Turn) -> Peer? {
    guard packet.timeToLive == 0, !arrival.isReassembled, packet.recipient == identity.id,
      neighbourhood.links[arrival.link]?.peer == packet.sender, let peer = neighbourhood.peers[packet.sender],
      !blocked.contains(peer.id),
      checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn)
    else { return nil }
    return peer
  }

  private mutating func say(
    _ type: KeyPath<SeedNumbers, MessageType>, _ payload: [UInt8], to peer: PeerID, on link: LinkID, _ turn: inout Turn
  ) {
    let packet = Packet(
      type: SeedNumbers.seed[keyPath: type], timeToLive: 0, timestamp: timestamp(turn), sender: identity.id,
      recipient: peer, payload: payload)
    guard let signed = signed(packet) else { return }
    transmit(signed, as: .own, to: [link], &turn)
  }

  /// A client version of at least five characters distinguishes a hello from a fragment.
  private static let clientVersion = "earshot"
  private static let platform = "linux"
  private static let hello = try? VersionHello(
    versions: [.v1, .v2], preferred: PacketVersion.v2.rawValue, clientVersion: clientVersion, platform: platform)
}

extension MeshEngine.Configuration {
  /// Whether any peer may be addressed in dialect S.
  var speaksSeed: Bool { dialect == .seed || !dialects.isEmpty && dialects.values.contains(.seed) }
}

extension Packet {
  /// Packet with the packet type of dialect S for a handshake answer or a sealed payload.
  fileprivate var forSeed: Packet {
    var form = self
    if type == .noiseHandshake, payload.count == Limits.handshakeAnswerBytes {
      form.type = SeedNumbers.seed.handshakeResponse
    } else if type == .noiseEncrypted {
      form.type = SeedNumbers.seed.encrypted
    }
    return form
  }
}

extension MessageUUID {
  /// Parses a message ID as UUID. Throws if it is not one, or not in canonical form.
  fileprivate init(of id: MessageID) throws(WireError) {
    try self.init(text: id.text)
    guard description == id.text else { throw .badValue("UUID") }
  }
}
