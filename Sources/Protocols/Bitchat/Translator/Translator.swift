import BitchatWire
import Bytes
import Common
import Crypto

/// Translates between dialect L, the only form that the engine and the machines know, and dialect S. Facts: bitchat.md
/// section 16.1.
///
/// Packets of this node are translated for each link, and received packets before the engine handles them. Dialect S is
/// used only on links whose peer speaks it, because the apps would relay it over seven hops. Packets of others are
/// relayed and archived as they are, because a translation would invalidate their signatures.
///
/// The translator also negotiates versions with neighbours that speak dialect S: dialect L has no such negotiation.
struct Translator: Sendable {
  /// Settings of the node that decide about dialects.
  struct Settings: Hashable, Sendable {
    let nickname: String
    /// Preferred dialect, used with peers that speak it.
    let preferred: MeshDialect
    /// Peers with a configured dialect, whatever they announce.
    let chosen: [PeerID: MeshDialect]

    /// Dialect that the node announces: S if any peer may be addressed in it.
    var announced: MeshDialect { preferred == .seed || chosen.values.contains(.seed) ? .seed : .live }
  }

  /// Maximum inflated length of a sealed packet of dialect S, in bytes: 64 KiB of text and 1 KiB for other fields.
  private static let sealedBytes = 65 << 10

  /// Peer ID of this node.
  private let own: PeerID
  private var settings: Settings
  /// Whether any peer may be addressed in dialect S.
  private(set) var isActive: Bool
  private(set) var talks = VersionTalks()
  /// Public messages received in dialect S, by their IDs in dialect L: some arrive in both dialects.
  private var lines = RecentPackets<PacketID>(
    limit: GossipArchive.messageLimit, lifetime: .milliseconds(GossipArchive.messageMilliseconds))

  init(own: PeerID, _ settings: Settings) {
    (self.own, self.settings) = (own, settings)
    isActive = settings.announced == .seed
  }

  /// Applies changed settings to all further packets.
  mutating func use(_ settings: Settings) {
    guard settings != self.settings else { return }
    self.settings = settings
    isActive = settings.announced == .seed
    if !isActive { talks.endAll() }
  }

  // MARK: Selection

  /// Dialect in which this node addresses a peer. A configured dialect comes first. Dialect S is used if this node
  /// prefers it, and the peer has announced it or has sent a hello over its own link. Otherwise dialect L.
  func dialect(of peer: PeerID, _ peers: PeerTable) -> MeshDialect {
    guard isActive else { return .live }
    if let chosen = settings.chosen[peer] { return chosen }
    guard settings.preferred == .seed else { return .live }
    return peers[peer]?.dialect == .seed || talks.hasGreeted(peer) ? .seed : .live
  }

  /// Dialects that this node uses on its links.
  func dialects(of links: LinkTable<MeshLink>, _ peers: PeerTable) -> LinkDialects {
    guard isActive else { return LinkDialects() }
    var others: [LinkID: MeshDialect] = [:]
    for (link, state) in links {
      if let peer = state.peer, case let dialect = dialect(of: peer, peers), dialect != .live { others[link] = dialect }
    }
    return LinkDialects(others: others)
  }

  /// Whether packet types of dialect S are accepted from a peer: it announces S, or is addressed in it.
  private func isExpected(from peer: PeerID, _ view: NodeView) -> Bool {
    view.peers[peer]?.dialect == .seed || dialect(of: peer, view.peers) == .seed
  }

  /// Dialect in which packets reach a peer: S if the peer and all nodes on a route to it speak it.
  func reach(of peer: PeerID, _ view: @autoclosure () -> NodeView) -> MeshDialect {
    guard isActive else { return .live }
    let view = view()
    guard dialect(of: peer, view.peers) == .seed else { return .live }
    let near = view.neighbours
    guard !near.contains(peer) else { return .seed }
    let topology = Topology(own: own, neighbours: near, peers: view.peers.peers.values, at: view.now)
    return topology.route(from: own, to: peer) { dialect(of: $0, view.peers) == .seed } != nil ? .seed : .live
  }

  /// Whether public messages for a neighbour are sent in both dialects: it speaks dialect S, and a peer beyond the
  /// neighbours speaks dialect L.
  func needsBoth(_ link: LinkID, _ view: NodeView) -> Bool { view.dialects[link] != .live && hasLivePeersBehind(view) }

  private func hasLivePeersBehind(_ view: NodeView) -> Bool {
    let near = view.neighbours
    return view.peers.peers.keys.contains { !near.contains($0) && dialect(of: $0, view.peers) == .live }
  }

  // MARK: Packets of this node

  /// Returns the forms in which a packet of this node is sent, each with its links.
  func forms(
    of packet: Packet, for targets: [LinkID], _ view: @autoclosure () -> NodeView
  ) -> [(packet: Packet, links: [LinkID])] {
    guard isActive else { return [(packet, targets)] }
    let view = view()
    let translated = targets.filter { view.dialects[$0] != .live }
    guard !translated.isEmpty else { return packet.type.isNeverLive ? [] : [(packet, targets)] }
    let live = targets.filter { view.dialects[$0] == .live }
    if let form = form(of: packet) {
      return [(form, translated), (packet, hasLivePeersBehind(view) ? translated : []), (packet, live)]
    }
    guard let recipient = packet.recipient, recipient != .everybody, reach(of: recipient, view) == .seed else {
      return [(packet, translated), (packet, live)]
    }
    return [(packet.inSeed, translated)]
  }

  /// Returns a public packet of this node in dialect S; nil if there is no such form, the text is too long, or the node
  /// does not use the dialect. The result is deterministic.
  func form(of packet: Packet) -> Packet? {
    guard isActive else { return nil }
    var form = Packet(
      type: SeedNumbers.seed.leave, timestamp: packet.timestamp, sender: packet.sender, recipient: .everybody,
      payload: [])
    switch packet.type {
    case .leave: return form
    case .message:
      guard packet.payload.count <= Int(UInt16.max) else { return nil }
      let id = MessageUUID(packet: PacketID(packet))
      let message = SeedMessage(
        timestamp: packet.timestamp, id: id.description, sender: settings.nickname,
        text: String(decoding: packet.payload, as: UTF8.self))
      (form.type, form.payload) = (SeedNumbers.seed.message, message.bytes)
      if form.payload.count > Int(UInt16.max) { form.version = .v2 }
      return form
    default: return nil
    }
  }

  /// Form in which a private payload is sent to a peer.
  enum PrivateForm {
    /// The plaintext, which is then sealed in the Noise session.
    case sealed([UInt8])
    /// Receipts of dialect S are sent in clear.
    case clear([UInt8], MessageType)
    /// The payload has no form in the requested dialect.
    case none
  }

  /// Returns the form in which a private payload is sent to a peer. The form is that of dialect L if the peer is not
  /// reached in S, or S has none for the payload.
  func form(
    of payload: NoisePayload, for peer: PeerID, _ view: NodeView, randomFrom random: inout some RandomSource
  ) -> PrivateForm {
    guard reach(of: peer, view) == .seed else { return .sealed(payload.bytes) }
    switch payload {
    case .privateMessage(let message):
      var said = SeedMessage(
        timestamp: view.time, id: message.id.text, sender: settings.nickname, text: message.text)
      said.isPrivate = true
      said.recipientNickname = view.peers[peer]?.nickname
      let inner = Packet(
        type: SeedNumbers.seed.message, timestamp: view.time, sender: own, recipient: peer, payload: said.bytes)
      return (try? inner.encoded()).map { .sealed($0) } ?? .none
    case .delivered(let id):
      let ack = (try? MessageUUID(of: id)).flatMap { message in
        try? SeedDeliveryAck(
          message: message, ack: MessageUUID(randomFrom: &random), recipient: own,
          hops: UInt8(clamping: view.peers[peer]?.hops ?? 1), timestamp: view.time, nickname: settings.nickname)
      }
      return ack.map { .clear($0.bytes, SeedNumbers.seed.deliveryAck) } ?? .sealed(payload.bytes)
    case .read(let id):
      let receipt = (try? MessageUUID(of: id)).flatMap { message in
        try? SeedReadReceipt(
          message: message, receipt: MessageUUID(randomFrom: &random), reader: own, timestamp: view.time,
          nickname: settings.nickname)
      }
      return receipt.map { .clear($0.bytes, SeedNumbers.seed.readReceipt) } ?? .sealed(payload.bytes)
    default: return .sealed(payload.bytes)
    }
  }

  /// Returns the link over which this node announces itself after a session with a peer was established, as the peer
  /// does too; nil with a peer of dialect L.
  func linkToAnnounce(afterSessionWith peer: PeerID, _ view: NodeView) -> LinkID? {
    view.links.links(to: peer).first.flatMap { view.dialects[$0] == .live ? nil : $0 }
  }

  // MARK: Received packets

  /// Received packet of a translated type, in the terms of dialect L.
  enum Incoming {
    /// Public message, with its ID in dialect L; nil if the text is not accepted.
    case message((text: PublicText, id: PacketID)?)
    case leave
    /// Receipt in clear. The peer has signed it, and only the two peers know the ID of the message.
    case receipt(MessageID, isRead: Bool)
    case fragment(Fragment)
    case noise
    /// The packet is malformed, or is not expected from its sender.
    case refused
    /// The packet type has the meaning that it has in dialect L.
    case live
  }

  /// Translates a received packet of a type that dialect S uses, or mid-2025 used, from any peer and regardless of this
  /// node's dialect. Does not check the signature.
  func translate(_ packet: Packet, _ view: NodeView) -> Incoming {
    switch meaning(of: packet, view) {
    case .seedMessage: return .message(Self.text(of: packet))
    case .seedLeave: return .leave
    case .seedDeliveryAck, .deliveryAck2025:
      let ack = try? SeedDeliveryAck(reading: packet.payload)
      return receipt(for: ack?.message, of: ack?.recipient, isRead: false, packet, view)
    case .seedReadReceipt, .readReceipt2025:
      let receipt = try? SeedReadReceipt(reading: packet.payload)
      return self.receipt(for: receipt?.message, of: receipt?.reader, isRead: true, packet, view)
    case .seedFragment, .fragment2025: return (try? Fragment(reading: packet.payload)).map { .fragment($0) } ?? .refused
    case .seedCiphertext: return .noise
    case .drop where packet.type != SeedNumbers.seed.message: return .refused
    default: return .live
    }
  }

  /// Meaning of a packet whose type has several meanings.
  private func meaning(of packet: Packet, _ view: NodeView) -> PacketMeaning {
    let isExpected = isExpected(from: packet.sender, view)
    return PacketMeaning(
      type: packet.type, payload: packet.payload,
      state: PacketMeaning.SeedState(
        awaitsHandshakeResponse: isExpected && view.sessions.awaitsAnswer(from: packet.sender),
        hasSession: isExpected && view.sessions.hasSession(with: packet.sender)))
  }

  /// Private messages must be sealed, so that they are not accepted in clear.
  private static func text(of packet: Packet) -> (text: PublicText, id: PacketID)? {
    guard let message = try? SeedMessage(reading: packet.payload), !message.isPrivate,
      let text = try? PublicText(message.text)
    else { return nil }
    let line = Packet(type: .message, timestamp: packet.timestamp, sender: packet.sender, payload: text.payload)
    return (text, PacketID(line))
  }

  private func receipt(
    for message: MessageUUID?, of recipient: PeerID?, isRead: Bool, _ packet: Packet, _ view: NodeView
  ) -> Incoming {
    guard packet.recipient == own, recipient == packet.sender, view.peers.has(packet.sender), let message,
      let id = try? MessageID(message.description)
    else { return .refused }
    return .receipt(id, isRead: isRead)
  }

  /// Whether a packet is a handshake message, and not a sealed payload. Dialect S has a type for answers, which is that
  /// of sealed payloads in dialect L.
  func isHandshake(_ packet: Packet, _ view: @autoclosure () -> NodeView) -> Bool {
    if packet.type == .noiseHandshake { return true }
    return packet.type == SeedNumbers.seed.handshakeResponse && packet.payload.count == Limits.handshakeAnswerBytes
      && meaning(of: packet, view()) == .seedHandshakeResponse
  }

  /// Content of a sealed payload of dialect S: a message or a receipt, or nil if it is neither.
  struct SealedContent {
    let payload: NoisePayload?
  }

  /// Translates a sealed payload, which is a complete packet in dialect S. Payloads of dialect L differ in the second
  /// byte.
  ///
  /// - Returns: nil for a payload of dialect L.
  func translate(sealed plaintext: [UInt8], from peer: PeerID) -> SealedContent? {
    guard plaintext.count >= Limits.smallestPacket, MessageType(rawValue: plaintext[1]).isTranslated,
      let view = try? PacketView(plaintext), view.sender == peer,
      view.recipient.map({ $0 == own }) ?? true, view.inflatedCount <= Self.sealedBytes,
      let packet = try? Packet(view)
    else { return nil }
    return SealedContent(payload: try? Self.payload(of: packet))
  }

  private static func payload(of packet: Packet) throws(WireError) -> NoisePayload? {
    switch PacketMeaning(type: packet.type, payload: packet.payload) {
    case .seedMessage:
      let message = try SeedMessage(reading: packet.payload)
      return .privateMessage(PrivateMessage(translated: message.text, id: try MessageID(message.id)))
    case .seedDeliveryAck, .deliveryAck2025:
      return .delivered(try MessageID(try SeedDeliveryAck(reading: packet.payload).message.description))
    case .seedReadReceipt, .readReceipt2025:
      return .read(try MessageID(try SeedReadReceipt(reading: packet.payload).message.description))
    default: return nil
    }
  }

  /// Records a public message that arrived in dialect S, by its ID in dialect L.
  mutating func note(_ line: PacketID, at now: Instant) { lines.insert(line, at: now) }

  /// Whether a public message has arrived in dialect S.
  mutating func hasReceived(_ line: PacketID, at now: Instant) -> Bool { lines.see(line, at: now) }

  /// Records the dialect that a peer announces.
  mutating func noteAnnounce(of peer: PeerID, before: MeshDialect?, now: MeshDialect) {
    if before == .seed, now == .live { talks.end(with: peer) }
  }

  // MARK: Versions

  /// Next time at which an answer to a hello is overdue; nil if none is awaited.
  var deadline: Instant? { talks.deadline }

  /// Sends a hello to neighbours that speak dialect S by announce or by configuration.
  mutating func greetNeighbours(_ view: NodeView, _ clock: inout PacketClock) -> [Intent] {
    talks.expire(at: view.now)
    guard view.canSend, view.role.converses else { return [] }
    var intents: [Intent] = []
    for (link, state) in view.links {
      guard let peer = state.peer, talks[link]?.peer != peer || talks[link]?.greetedAt == nil else { continue }
      let isProven = settings.chosen[peer] == .seed || view.peers[peer]?.dialect == .seed
      guard isProven, dialect(of: peer, view.peers) == .seed, let hello = Self.hello else { continue }
      talks.greet(peer, on: link, at: view.now)
      intents.append(Self.say(\.versionHello, hello.bytes, to: peer, on: link, view, &clock))
    }
    return intents
  }

  /// A packet by which two nodes of dialect S agree on a version.
  enum VersionMessage {
    case hello(VersionHello)
    case ack(VersionAck)
  }

  /// Reads a packet of the version negotiation; nil if the packet is something else of its type, a fragment or a sync
  /// request.
  func versionMessage(in packet: Packet) -> VersionMessage? {
    switch packet.type {
    case SeedNumbers.seed.versionHello: return (try? VersionHello(payload: packet.payload)).map { .hello($0) }
    case SeedNumbers.seed.versionAck where !packet.payload.starts(with: [0x01, 0x00, 0x01]):
      return (try? VersionAck(payload: packet.payload)).map { .ack($0) }
    default: return nil
    }
  }

  /// Whether a packet of the version negotiation was sent by a neighbour over its own link, and is expected. The caller
  /// checks the signature.
  func isExpected(_ message: VersionMessage, in packet: Packet, _ arrival: Arrival, _ view: NodeView) -> Bool {
    switch message {
    case .hello:
      guard settings.chosen[packet.sender] ?? settings.preferred == .seed else { return false }
    case .ack:
      guard let talk = talks[arrival.link], talk.greetedAt != nil, talk.agreed == nil, talk.peer == packet.sender else {
        return false
      }
    }
    return packet.timeToLive == 0 && !arrival.isReassembled && packet.recipient == own
      && view.peer(of: arrival.link) == packet.sender && !view.blocked.contains(packet.sender)
  }

  /// Handles an expected packet of the version negotiation from a neighbour.
  mutating func handle(
    _ message: VersionMessage, from peer: PeerID, on link: LinkID, _ view: NodeView, _ clock: inout PacketClock
  ) -> [Intent] {
    switch message {
    case .hello(let hello): return handleHello(hello, from: peer, on: link, view, &clock)
    case .ack(let ack): return handleAck(ack, from: peer, on: link)
    }
  }

  private mutating func handleHello(
    _ hello: VersionHello, from peer: PeerID, on link: LinkID, _ view: NodeView, _ clock: inout PacketClock
  ) -> [Intent] {
    guard talks.handleHello(of: peer, on: link, at: view.now), view.canSend else { return [] }
    let agreed = hello.versions.max { $0.rawValue < $1.rawValue }
    var intents: [Intent] = agreed == .v2 ? [.noteVersion(.v2, of: peer)] : []
    let answer = try? VersionAck(
      agreed: agreed?.rawValue ?? 0, serverVersion: Self.clientVersion, platform: Self.platform,
      isRejected: agreed == nil, reason: agreed == nil ? "no common version" : nil)
    if let answer { intents.append(Self.say(\.versionAck, answer.bytes, to: peer, on: link, view, &clock)) }
    return intents
  }

  private mutating func handleAck(_ ack: VersionAck, from peer: PeerID, on link: LinkID) -> [Intent] {
    guard let talk = talks[link] else { return [] }
    guard !ack.isRejected, let version = PacketVersion(rawValue: ack.agreed) else { return [.cut(link, .incompatible)] }
    talks.agree(on: version, with: peer, on: link)
    var intents: [Intent] = version == .v2 ? [.noteVersion(.v2, of: peer)] : []
    // The node with the smaller ID begins the session, or the only one that has sent a hello.
    if own < peer || !talk.hasGreeted { intents.append(.beginSession(peer)) }
    return intents
  }

  private static func say(
    _ type: KeyPath<SeedNumbers, MessageType>, _ payload: [UInt8], to peer: PeerID, on link: LinkID, _ view: NodeView,
    _ clock: inout PacketClock
  ) -> Intent {
    let packet = Packet(
      type: SeedNumbers.seed[keyPath: type], timeToLive: 0, timestamp: clock.timestamp(at: view.time),
      sender: view.own, recipient: peer, payload: payload)
    return .sendSigned(packet, on: link)
  }

  /// Ends the negotiation on a link that was closed.
  mutating func end(_ link: LinkID) { talks.end(link) }

  /// Ends all negotiations when this node leaves.
  mutating func endAll() { talks.endAll() }

  /// A client version of at least five characters distinguishes a hello from a fragment.
  private static let clientVersion = "earshot"
  private static let platform = "linux"
  private static let hello = try? VersionHello(
    versions: [.v1, .v2], preferred: PacketVersion.v2.rawValue, clientVersion: clientVersion, platform: platform)
}

extension Packet {
  /// Packet with the packet type of dialect S for a handshake answer or a sealed payload.
  fileprivate var inSeed: Packet {
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
