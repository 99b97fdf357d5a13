import BitchatWire
import Common
import Crypto
import Noise

/// Node of the Bitchat mesh: bytes and time in, actions out. Facts: bitchat.md sections 1 to 9 and 16.
///
/// The engine handles packets and peers. The service makes the links; the engine only requests that it cuts some.
public struct MeshEngine: Sendable {
  public var configuration: Configuration {
    didSet {
      isDueKnown = false
      neighbourhood.cutSooner(configuration.isMonitorStrict)
      translator.use(configuration.translation)
      if configuration.nickname != oldValue.nickname || configuration.longestWrite != oldValue.longestWrite
        || configuration.translation.announced != oldValue.translation.announced
      {
        neighbourhood.announceSoon(at: latest)
      }
    }
  }
  public let identity: Identity
  public internal(set) var counters = Counters()
  public internal(set) var state = State.stopped
  /// Hashes of the packets that wipes have erased; nil without a wipe in the last day. With them, this node does not
  /// accept its erased packets from others.
  public var erased: ErasedTraces?

  var random: any RandomSource & Sendable
  let hash: KeyedHash
  let signatures: any SignatureChecking
  /// Known peers, the links to neighbours, and the times of this node's announces.
  var neighbourhood: Neighbourhood
  var messages: DirectMessages
  /// Public packets for neighbours that missed them, and requests for missed ones.
  var gossip: GossipSync
  /// Filters received packets: copies, rate limits and signatures.
  var gate: PacketGate
  var pending = RelayQueue()
  var assembler = FragmentAssembler()
  /// Questions to peers for a proof of their signing keys.
  var challenges = Challenges()
  var transmitter: Transmitter
  /// Translates packets from and to dialect S.
  var translator: Translator
  /// Courier envelopes of others, and own messages at couriers.
  var courier: Courier
  /// Files of this node that are under way, and received ones.
  var files = FileTransfers()
  /// Private messages for peers without a path in the mesh.
  private var uplink = Uplink()
  var pings = Pings()
  public internal(set) var blocked: Set<PeerID> = []
  public internal(set) var favourites: Set<PeerID> = []
  public internal(set) var verified: Set<PeerID> = []

  var isStarted = false
  /// Source of the timestamps of this node's packets, which never repeat.
  var clock = PacketClock()
  /// Monotonic time of the last event that the engine handled.
  var latest = Instant.zero
  private var timers = TimerTable()
  /// Whether the timers have the current deadlines of the machines.
  var isDueKnown = false

  /// - Parameter signatures: verifies signatures.
  public init(
    identity: Identity, configuration: Configuration, random: any RandomSource & Sendable,
    limits: SessionLimits = MeshEngine.sessionLimits, signatures: any SignatureChecking = ComputedSignatures()
  ) {
    self.identity = identity
    self.configuration = configuration
    self.random = random
    self.signatures = signatures
    hash = KeyedHash(randomFrom: &self.random)
    neighbourhood = Neighbourhood(own: identity.id, isStrict: configuration.isMonitorStrict)
    gate = PacketGate(hash: hash, signatures: signatures)
    transmitter = Transmitter(own: identity.id, signingKey: identity.signingKey, signatures: signatures)
    translator = Translator(own: identity.id, configuration.translation)
    let sessions = Sessions(
      key: identity.noiseKey, own: identity.id, limits: limits, random: random,
      belongs: { key, peer in PeerID(noiseKey: key) == peer })
    messages = DirectMessages(sessions: sessions, signingKey: identity.signingKey.publicKey)
    gossip = GossipSync(role: configuration.role)
    courier = Courier(limit: configuration.role.envelopeLimit(configuration.carries))
  }

  /// Session limits: messages may be as long as a private file.
  public static var sessionLimits: SessionLimits {
    var limits = SessionLimits()
    limits.messageBytes = Limits.payloadBytes - 20
    return limits
  }

  /// Time at which `Event.timer` is due; nil if nothing is scheduled.
  public var deadline: Instant? {
    guard !isDueKnown else { return timers.first }
    var copy = self
    copy.setTimers()
    return copy.timers.first
  }

  /// Returns `deadline`. As a mutating method it is called in place on an engine stored in an object, without a copy.
  public mutating func nextDeadline() -> Instant? {
    if !isDueKnown { setTimers() }
    return timers.first
  }

  /// Sets the timers of all machines. Called after each packet that is not a copy.
  private mutating func setTimers() {
    guard isStarted else { return timers.removeAll() }
    timers.set(.neighbourhood, neighbourhood.deadline)
    timers.set(.relays, pending.deadline, latest: pending.latest)
    timers.set(.transmitter, transmitter.deadline)
    timers.set(.sessions, messages.sessions.deadline)
    timers.set(.gate, gate.deadline)
    timers.set(.fragments, assembler.deadline)
    timers.set(.versions, translator.deadline)
    timers.set(.challenges, challenges.deadline)
    timers.set(.pings, pings.deadline)
    guard canSend else {
      for timer in TimerTable.Timer.unsolicited { timers.set(timer, nil) }
      return
    }
    timers.set(.gossip, gossip.deadline)
    timers.set(.messages, messages.deadline)
    timers.set(.courier, courier.deadline)
    timers.set(.uplink, uplink.deadline)
    timers.set(.files, files.deadline { isFast($0) })
    timers.set(.repair, repairDeadline)
  }

  /// Handles an event.
  ///
  /// - Parameters:
  ///   - now: time of the monotonic clock.
  ///   - time: milliseconds since 1970, by this machine's clock.
  public mutating func handle(_ event: Event, at now: Instant, time: UInt64) -> [Action] {
    latest = now
    var turn = Turn(now: now, time: time)
    switch event {
    case .start: start(&turn)
    case .stop: stop(&turn)
    case .clock(let isTrusted): trustClock(isTrusted, &turn)
    case .clockSet: gate.forgetClocks()
    case .linkOpened(let link, let frameLimit, let isOurs, let origin): open(link, frameLimit, isOurs, origin, &turn)
    case .linkChanged(let link, let frameLimit): change(link, frameLimit, &turn)
    case .linkClosed(let link): close(link, turn)
    case .received(let bytes, let link): receive(bytes, on: link, &turn)
    case .announce: neighbourhood.announceSoon(at: now)
    case .kept(let message, let peer): acknowledge(.delivered(message), to: peer, &turn)
    case .notTaken(let message, let peer): messages.forgetReceived(message, from: peer)
    case .read(let message, let peer): noteRead(message, from: peer, &turn)
    case .favourite(let peer, let isFavourite): favour(peer, isFavourite, &turn)
    case .block(let peer, let isBlocked): block(peer, isBlocked, &turn)
    case .verified(let peer, let isVerified): verify(peer, isVerified, &turn)
    case .forget(let peer): forget(peer, &turn)
    case .fileKept(let receipt, let peer): perform(files.handleStored(receipt, from: peer, at: now), &turn)
    case .cancelFile(let number): perform(files.cancel(number), &turn)
    case .quiet(let isQuiet): files.hold(isQuiet)
    case .room(let link, let waiting): files.hasRoom(link, waiting: waiting)
    case .uplinkOpened(let key): openUplink(key, &turn)
    case .uplinkClosed: uplink.close()
    case .uplinkTaken(let id): perform(uplink.take(id, at: now), &turn)
    case .uplinkRefused(let id): uplink.refuse(id, at: now)
    case .timer: break
    }
    // Most frames are copies. They change no deadline, except that a relay may have become superfluous.
    if turn.isIdle, isDueKnown {
      timers.set(.relays, pending.deadline, latest: pending.latest)
      if !timers.isDue(at: now) { return [] }
    }
    // Work that was due before the event is still due, or the event postponed it. After a stop nothing is due.
    if !isStarted || !isDueKnown || !timers.isDue(at: now) { setTimers() }
    if isStarted, timers.isDue(at: now) || hasUntimedWork {
      doWhatIsDue(&turn)
      setTimers()
    }
    isDueKnown = true
    counters.abandonedFragments = UInt64(assembler.abandoned)
    turn.actions += assembler.takeLost().map { .arrivalEnded($0) }
    updateState(&turn)
    return turn.actions
  }

  /// Whether machines that set no timers may have work, so that each event must check them.
  private var hasUntimedWork: Bool {
    state == .waitingForClock && canSend || files.count > 0 || !challenges.isEmpty
      || translator.isActive
  }

  // MARK: Intents

  /// Read-only state from which machines decide.
  func view(_ turn: Turn) -> NodeView {
    NodeView(
      now: turn.now, time: turn.time, own: identity.id, role: configuration.role, canSend: canSend,
      peers: neighbourhood.peers, links: neighbourhood.links, ways: neighbourhood.ways, dialects: linkDialects,
      sessions: messages.sessions, blocked: blocked)
  }

  /// Carries out the intents of a machine.
  mutating func perform(_ intents: [Intent], _ turn: inout Turn) {
    for intent in intents {
      switch intent {
      case .report(let action): turn.actions.append(action)
      case .count(let counter, let number): counters[keyPath: counter] += number
      case .seal(let payload, let peer): seal(payload, for: peer, &turn)
      case .beginSession(let peer): handleSession(.begin(peer), &turn)
      case .tryHandshake(let peer): handleSession(.ask(peer), &turn)
      case .unanswered(let peer): handleSession(.unanswered(peer), &turn)
      case .challenge(let peer): ask(peer, &turn)
      case .settle(let peer, let signingKey): settle(peer, signingKey, &turn)
      case .conclude(let peer, let outcome): perform(challenges.conclude(peer, outcome), &turn)
      case .handlePrivateMessage(let message, let peer): handlePrivateMessage(message, from: peer, &turn)
      case .handleReceipt(let id, let peer, let isRead): handleReceipt(id, from: peer, isRead: isRead, &turn)
      case .sendEnvelope(let envelope, let peer, let links): send(envelope, to: peer, over: links, &turn)
      case .deposited(let number, let couriers, let key):
        perform(messages.noteDeposit(of: number, with: couriers, key), &turn)
      case .sendNoise(let message, let type, let peer, let kind): send(message, as: type, to: peer, kind, &turn)
      case .sessionBegan(let peer): beginSession(with: peer, &turn)
      case .handlePlaintext(let plaintext, let peer): handlePlaintext(plaintext, from: peer, &turn)
      case .hurryCourier: findOtherWays(at: turn.now)
      case .entrust(let receipt, let peer):
        courier.entrust(receipt, to: peer, at: turn.now, time: turn.time)
        let context = uplinkContext(turn)
        perform(uplink.sendReceipt(receipt, to: peer, context, randomFrom: &random), &turn)
      case .forgetEnvelopes(let message): courier.forget(message)
      case .favouredBy(let peer, let notice):
        courier.favour(by: peer, notice.isFavorite, neighbourhood.peers)
        noteUplink(notice, of: peer, &turn)
      case .uplinked(let id): perform(messages.noteUplink(id), &turn)
      case .acknowledge(let receipt, let peer): acknowledge(receipt, to: peer, &turn)
      case .renewSession(let number, let peer): renewSession(forFile: number, with: peer, &turn)
      case .makeFilePacket(let number): makeFilePacket(number, &turn)
      case .withdraw(let packets): withdraw(packets, &turn)
      case .giveWay(let link): transmitter.giveWay(on: link, at: turn.now)
      case .chatted: files.chatted(at: turn.now)
      case .archive(let item): _ = gossip.store(item)
      case .sendSigned(let packet, let link):
        if let signed = signed(packet) { transmit(signed, as: .own, to: [link], &turn) }
      case .cut(let link, let reason): cut(link, reason, &turn)
      case .noteVersion(let version, let peer):
        neighbourhood.handlePacket(of: peer, version: version, at: turn.now)
      case .send(let packet, let kind, let targets): transmit(packet, as: kind, to: targets, &turn)
      case .sendBytes(let bytes, let kind, let targets): transmit(bytes, as: kind, to: targets, &turn)
      case .paceFragment(let bytes, let link, let source):
        perform([transmitter.pace(bytes, as: .fragment, on: link, from: source, at: turn.now)], &turn)
      case .noteReach(let reach, let key, let type): gate.note(reach: reach, of: key, type)
      case .announceRelayed(let peer): neighbourhood.noteRelay(of: peer)
      case .sendAnswer(let bytes, let type, let link): answer(bytes, type, on: link, &turn)
      case .sendPing(let payload, let type, let kind, let peer, let link):
        send(payload, as: type, in: kind, to: peer, over: link, &turn)
      }
    }
  }

  // MARK: Received packets

  private mutating func receive(_ bytes: [UInt8], on link: LinkID, _ turn: inout Turn) {
    guard isStarted, let place = neighbourhood.links.index(of: link) else { return }
    counters.frames += 1
    do throws(PacketError) {
      let view = try PacketView(bytes)
      neighbourhood.handlePacket(at: place, turn.now)
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
    case .message:
      return handlePublicMessage(try? PublicText(payload: packet.payload), as: id, packet, arrival, id, &turn)
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
    case .courier where packet.recipient == identity.id && arrival.view.dialect == .live:
      return handleEnvelope(packet, arrival, &turn)
    case .requestSync:
      if !handleVersions(packet, arrival, &turn) { handleSyncRequest(packet, arrival, &turn) }
      return false
    default: return packet.type.isTranslated ? handleTranslated(packet, arrival, id, &turn) : true
    }
  }

  // MARK: Start and stop

  private mutating func start(_ turn: inout Turn) {
    guard !isStarted else { return }
    isStarted = true
    neighbourhood.start(at: turn.now)
  }

  private mutating func stop(_ turn: inout Turn) {
    guard isStarted else { return }
    if canSend {
      let leave = Packet(type: .leave, timestamp: timestamp(turn), sender: identity.id, payload: [])
      broadcast(leave, as: .own, &turn)
    }
    perform(challenges.endAll(), &turn)
    perform(pings.endAll(), &turn)
    isStarted = false
    neighbourhood.stop()
    pending = RelayQueue()
    transmitter.endAll()
    gossip.endAll()
    translator.endAll()
  }

  private mutating func open(
    _ link: LinkID, _ frameLimit: Int, _ isOurs: Bool, _ origin: DeviceOrigin?, _ turn: inout Turn
  ) {
    guard isStarted, neighbourhood.links[link] == nil else { return }
    neighbourhood.open(link, frameLimit: frameLimit, isOurs: isOurs, from: origin, at: turn.now)
    // The peer needs an announce before any other packet.
    announce(on: link, &turn)
  }

  private mutating func change(_ link: LinkID, _ frameLimit: Int, _ turn: inout Turn) {
    // The announce did not fit when the link was opened.
    if neighbourhood.resize(link, frameLimit: frameLimit) { announce(on: link, &turn) }
  }

  private mutating func close(_ link: LinkID, _ turn: Turn) {
    if let peer = neighbourhood.close(link) { messages.doubt(peer, limit: Self.sessionLimits.sessions) }
    // Messages for the peer of the link may need a courier.
    findOtherWays(at: turn.now)
    gossip.end(link)
    transmitter.forget(link)
    files.forget(link)
    pings.forget(link)
    counters.chatOfUnknown += gate.forget(link)
    translator.end(link)
  }

  // MARK: Time

  /// Returns a unique timestamp for a packet of this node.
  mutating func timestamp(_ turn: Turn) -> UInt64 { clock.timestamp(at: turn.time) }

  /// Whether phones accept packets of this node: they drop those whose clock deviates by more than two minutes.
  var canSend: Bool { isStarted && gate.isClockRight }

  private mutating func doWhatIsDue(_ turn: inout Turn) {
    // Neighbours have not had an announce while the clock was unknown.
    if state == .waitingForClock, canSend { neighbourhood.announceSoon(at: turn.now) }
    announceIfDue(&turn)
    if translator.isActive {
      let view = view(turn)
      perform(translator.greetNeighbours(view, &clock), &turn)
    }
    for packet in transmitter.takeDue(at: turn.now, isShared: { [files] in files.isWaiting(for: $0) })
    where neighbourhood.links[packet.link] != nil {
      files.giveWay(on: packet.link, at: turn.now)
      turn.actions.append(.send(packet.bytes, on: packet.link, packet.kind))
    }
    relayWhatIsDue(&turn)
    if canSend { syncWhatIsDue(&turn) }
    if let due = messages.sessions.deadline, due <= turn.now { handleSession(.timer, &turn) }
    if canSend {
      sendWhatIsDue(&turn)
      sendOwedNews(&turn)
      courierWhatIsDue(&turn)
      uplinkWhatIsDue(&turn)
      repairWhatIsDue(&turn)
    }
    sendFilesWhatIsDue(&turn)
    perform(pings.endLost(at: turn.now), &turn)
    askForProofs(&turn)
    counters.chatOfUnknown += gate.expire(at: turn.now)
    assembler.expire(at: turn.now)
    for (link, reason) in neighbourhood.silentLinks(at: turn.now) { cut(link, reason, &turn) }
    lookForSilentPeers(&turn)
  }

  private mutating func lookForSilentPeers(_ turn: inout Turn) {
    guard let silent = neighbourhood.takeSilentPeers(at: turn.now) else { return }
    gossip.age(at: turn.time)
    turn.actions += silent.map { .gone($0) }
    // Messages for these peers may need a courier.
    if !silent.isEmpty { findOtherWays(at: turn.now) }
  }

  mutating func cut(_ link: LinkID, _ reason: CutReason, _ turn: inout Turn) {
    close(link, turn)
    turn.actions.append(.cut(link, reason))
  }

  private mutating func updateState(_ turn: inout Turn) {
    let now: State =
      !isStarted ? .stopped : !canSend ? .waitingForClock : neighbourhood.hasNeighbours ? .connected : .alone
    guard now != state else { return }
    state = now
    turn.actions.append(.state(now))
  }

  // MARK: Peers

  /// Public messages and files that neighbours can get from this node.
  public var publicPackets: [PacketID] { gossip.archive.publicPackets }

  /// Whether there is a session whose keys the peer still has, as far as is known.
  public func hasSession(with peer: PeerID) -> Bool { messages.hasSession(with: peer) }

  private mutating func block(_ peer: PeerID, _ isBlocked: Bool, _ turn: inout Turn) {
    guard isBlocked else {
      uplink.hurry(at: turn.now)
      // The peer may carry envelopes again.
      if blocked.remove(peer) != nil, neighbours.contains(peer) { meetCourier(peer, turn) }
      return
    }
    blocked.insert(peer)
    gossip.forget(peer)
    courier.forget(peer)
    gate.forget(peer)
    perform(uplink.withdraw(peer), &turn)
  }

  private mutating func verify(_ peer: PeerID, _ isVerified: Bool, _ turn: inout Turn) {
    if isVerified { verified.insert(peer) } else { verified.remove(peer) }
    neighbourhood.hold(peer, isVerified || favourites.contains(peer))
    keepPin(of: peer, &turn)
    guard isVerified, challenges.begin(verified: peer, view(turn)) else { return }
    askForProofs(&turn)
  }

  /// Whether a user has verified the fingerprint of a peer, and the peer has proven its signing key.
  public func isVerified(_ peer: PeerID) -> Bool { verified.contains(peer) && neighbourhood.peers.isProven(peer) }

  /// Whether a peer was asked for a proof of its signing key, and has neither proven it nor failed.
  public func awaitsProof(of peer: PeerID) -> Bool { challenges.isAwaited(peer) }

  private mutating func favour(_ peer: PeerID, _ isFavourite: Bool, _ turn: inout Turn) {
    guard favourites.contains(peer) != isFavourite else { return }
    if isFavourite { favourites.insert(peer) } else { favourites.remove(peer) }
    neighbourhood.hold(peer, isFavourite || verified.contains(peer))
    keepPin(of: peer, &turn)
    oweNotice(to: peer, isFavourite, at: turn.now)
    if isFavourite { uplink.hurry(at: turn.now) } else { perform(uplink.withdraw(peer), &turn) }
    if canSend { sendOwedNews(&turn) }
  }

  private mutating func forget(_ peer: PeerID, _ turn: inout Turn) {
    neighbourhood.forget(peer)
    files.forget(peer)
    challenges.forget(peer)
    gossip.forget(peer)
    courier.forget(peer)
    courier.favour(by: peer, false, neighbourhood.peers)
    favourites.remove(peer)
    verified.remove(peer)
    blocked.remove(peer)
    perform(messages.forget(peer, at: turn.now), &turn)
    perform(uplink.forget(peer), &turn)
    perform(files.cancel(to: peer), &turn)
    turn.actions.append(.gone(peer))
  }
}

/// Restores the state of an earlier run. Undelivered messages are restored by `restore(_:at:time:)`; favourites, blocks
/// and verified peers by their events.
extension MeshEngine {
  /// Restores the pinned signing key of a peer. `isProven`: whether the peer has proven it.
  public mutating func restorePin(
    of peer: PeerID, _ signingKey: Ed25519.PublicKey, isProven: Bool, at now: Instant
  ) {
    neighbourhood.restorePin(peer, signingKey, isProven: isProven, at: now)
  }

  /// Restores the Noise key of a peer, for messages sealed while the peer is away.
  public mutating func restoreNoiseKey(of peer: PeerID, _ key: X25519.PublicKey) {
    if PeerID(noiseKey: key) == peer { neighbourhood.restoreNoiseKey(peer, key) }
  }

  /// Restores a public packet of an earlier run, for answers to sync requests.
  public mutating func restore(_ item: GossipArchive.Item) { _ = gossip.store(item) }

  /// Restores the ID of a received private message, so that copies are not reported.
  public mutating func restoreReceived(_ message: MessageID, from peer: PeerID, at now: Instant) {
    messages.restoreReceived(message, from: peer, at: now)
  }
}

extension MeshEngine {
  /// Counters of handshakes and sessions, by name.
  public var noiseTallies: [Tally] { messages.sessions.counters.tallies.map { Tally("Noise" + $0.name, $0.count) } }

  /// Number of stored items now, for each kind whose number grows with the network.
  public var holdings: Holdings {
    var holdings = Holdings()
    (holdings.peers, holdings.pins) = (neighbourhood.peers.count, neighbourhood.peers.pinCount)
    (holdings.announces, holdings.messages) = (gossip.archive.announceCount, gossip.archive.messageCount)
    (holdings.fragments, holdings.archiveBytes) = (gossip.archive.fragmentCount, gossip.archive.bytes)
    holdings.recentPackets = gate.remembered
    (holdings.pendingRelays, holdings.pendingBytes) = (pending.count, pending.bytes)
    (holdings.assemblies, holdings.assemblyBytes) = (assembler.count, assembler.bytes)
    (holdings.waitingChat, holdings.pacedFrames) = (gate.unknown.count, transmitter.paced.count)
    return holdings
  }
}

/// Descriptions contain neither content, nor peers, nor keys.
extension MeshEngine: CustomStringConvertible, CustomReflectable {
  public var description: String { "a mesh node, \(state.rawValue), with \(neighbourhood.links.count) links" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Proofs of verification codes: a peer signs a challenge sent inside Noise. Facts: bitchat.md section 11.
extension MeshEngine {
  /// Asks a peer to prove that a verification code is its own, in a session that is established first if needed.
  /// `Action.proof` follows within 24 s. A second call restarts this time. `peer` owns the Noise key in the code, and
  /// `signingKey` is the signing key in it; the caller has checked its signature.
  public mutating func challenge(
    _ peer: PeerID, signingKey: Ed25519.PublicKey, at now: Instant, time: UInt64
  ) throws(ChallengeError) -> [Action] {
    isDueKnown = false
    var turn = Turn(now: now, time: time)
    try challenges.begin(peer, signingKey, view(turn))
    askForProofs(&turn)
    return turn.actions
  }

  /// Sends the challenges that are due, and ends those that can no longer be answered.
  mutating func askForProofs(_ turn: inout Turn) {
    guard !challenges.isEmpty else { return }
    perform(challenges.askForKeys(view(turn), randomFrom: &random), &turn)
    perform(challenges.askForCodes(view(turn)), &turn)
  }

  /// Sends an open challenge to a peer with a session.
  mutating func ask(_ peer: PeerID, _ turn: inout Turn) {
    guard canSend, let challenge = challenges.question(to: peer, at: turn.now, randomFrom: &random) else { return }
    seal(.verificationChallenge(challenge), for: peer, &turn)
  }

  /// Handles an announce with a valid signature of another key than the pinned one, which is not proven.
  mutating func contest(_ announcement: Announcement, _ arrival: Arrival, _ turn: inout Turn) {
    let (peer, key, origin) = (announcement.peerID, announcement.signingKey, origin(of: arrival.link))
    challenges.note(Disputes.Rival(signingKey: key, announce: arrival, origin: origin, heardAt: turn.now), of: peer)
    // The peer's own link may be an attacker's, so that the peer is reachable only over this one.
    noteWay(of: arrival, to: peer, &turn)
    askForKey(of: peer, announcement.noiseKey, because: origin, &turn)
  }

  /// Asks a peer to state its signing key inside Noise, within the limits of `Disputes`.
  mutating func askForKey(
    of peer: PeerID, _ noiseKey: X25519.PublicKey, because origin: DeviceOrigin, _ turn: inout Turn
  ) {
    guard challenges.begin(keyOf: peer, noiseKey, because: origin, view(turn)) else { return }
    perform(challenges.askForKeys(view(turn), randomFrom: &random), &turn)
  }

  /// Pins the signing key that a peer has proven inside Noise, instead of any other.
  mutating func settle(_ peer: PeerID, _ signingKey: Ed25519.PublicKey, _ turn: inout Turn) {
    let wasProven = neighbourhood.peers.isProven(peer)
    let rival = challenges.settle(peer, signingKey)
    let isReplaced = neighbourhood.prove(peer, signingKey, at: turn.now)
    if isReplaced {
      // Announces and messages with the other key are an attacker's, and so are the links that count as the peer's own.
      gossip.forget(peer)
      turn.actions.append(.gone(peer))
    }
    if let arrival = rival?.announce, let packet = try? Packet(arrival.view),
      case .taken = handleAnnounce(packet, arrival, &turn)
    {
      keep(arrival, packet, PacketID(packet), &turn)
    }
    keepPin(of: peer, &turn)
    if !wasProven, !isReplaced, neighbourhood.peers.has(peer) { turn.actions.append(.peer(peer)) }
    if challenges.takesAnyKey(of: peer) { perform(challenges.conclude(peer, .proven), &turn) }
  }
}

/// Measures hops and round-trip time to a peer. Facts: bitchat.md section 3.
extension MeshEngine {
  /// Sends a ping to a peer. `number` is unique and chosen by the caller. `Action.pong` or `Action.pingLost` follows
  /// within 10 s.
  public mutating func ping(
    _ peer: PeerID, as number: UInt32, at now: Instant, time: UInt64
  ) throws(PingError) -> [Action] {
    isDueKnown = false
    var turn = Turn(now: now, time: time)
    perform(try pings.begin(number, to: peer, view(turn), randomFrom: &random), &turn)
    return turn.actions
  }

  mutating func handlePing(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard let payload = try? PingPayload(reading: packet.payload) else {
      counters.unreadable += 1
      return
    }
    guard !blocked.contains(packet.sender) else {
      counters.blocked += 1
      return
    }
    perform(pings.handlePing(payload, from: packet.sender, on: arrival.link, view(turn)), &turn)
  }

  mutating func handlePong(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard let payload = try? PingPayload(reading: packet.payload),
      let hops = payload.hops(at: arrival.view.timeToLive)
    else {
      counters.unreadable += 1
      return
    }
    // An attacker can ping a neighbour in this node's name and make it answer with the mark of a fragment that was not
    // received. Only an unsolicited pong confirms a fragment.
    let confirmation = FileConfirmation(mark: payload.nonce, isOfFragment: payload.interval != nil)
    if neighbourhood.links[arrival.link]?.peer == packet.sender,
      files.confirm(confirmation, on: arrival.link, at: turn.now)
    {
      return sendFilesWhatIsDue(&turn)
    }
    perform(pings.handlePong(payload, from: packet.sender, hops: hops, at: turn.now), &turn)
  }
}

/// Sync requests, answers and gap repair: `GossipSync`.
extension MeshEngine {
  /// Sends the sync requests that are due.
  mutating func syncWhatIsDue(_ turn: inout Turn) {
    guard let due = gossip.deadline, due <= turn.now else { return }
    let view = view(turn)
    perform(gossip.sendRequests(view, isQuiet: files.isQuiet, &clock, randomFrom: &random), &turn)
  }

  /// Answers a sync request of a direct neighbour. Requests travel one hop.
  mutating func handleSyncRequest(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard packet.timeToLive == 0, neighbourhood.links[arrival.link]?.peer == packet.sender,
      let peer = neighbourhood.peers[packet.sender],
      arrival.view.recipient.map({ $0 == identity.id }) ?? true,
      let request = try? SyncRequest(reading: packet.payload),
      checkSignature(arrival, packet, peer.signingKey, isKnownAnnounce: false, turn),
      gossip.takeAnswer(on: arrival.link, at: turn.now)
    else {
      counters.refusedRequests += 1
      return
    }
    counters.answeredRequests += 1
    let view = view(turn)
    let asker = GossipSync.Asker(
      peer: peer.id, link: arrival.link, dialect: view.dialects[arrival.link],
      takesBoth: translator.needsBoth(arrival.link, view))
    let (underWay, hash) = (pending.keys, hash)
    let answers = gossip.answer(request, of: asker, own: identity.id, isQuiet: files.isQuiet, at: turn.time) {
      underWay.contains($0.wireKey(hash, withSignature: !$0.type.isVerifiedHere))
    }
    perform(answers, &turn)
  }

  /// Sends an answer. Fragments for a phone are paced like those of a file.
  mutating func answer(_ bytes: [UInt8], _ type: MessageType, on link: LinkID, _ turn: inout Turn) {
    guard type == .fragment, !isFast(link), bytes.count <= neighbourhood.links.frameLimit(of: link) else {
      return transmit(bytes, as: .syncAnswer, to: [link], &turn)
    }
    perform([transmitter.pace(bytes, as: .syncAnswer, on: link, from: nil, at: turn.now)], &turn)
  }

  // MARK: Gap repair

  /// Time of the next request for missing fragments; nil if nothing is missing.
  var repairDeadline: Instant? {
    guard !files.isQuiet, configuration.role.storesMessages,
      let stalled = assembler.nextStalled(GossipSync.repairPause)
    else { return nil }
    return gossip.repairDeadline(stalled: stalled, neighbourhood.links, neighbourhood.peers)
  }

  /// Requests missing fragments from one neighbour at a time.
  mutating func repairWhatIsDue(_ turn: inout Turn) {
    guard let due = repairDeadline, due <= turn.now else { return }
    let stalled = assembler.askForStalled(GossipSync.repairPause, at: turn.now, limit: Limits.requestedFragments)
    guard !stalled.isEmpty, let neighbour = gossip.beginRepair(view(turn)) else { return }
    let kept = gossip.archive.fragments(of: Set(stalled))
    for id in stalled { takeKept(kept[id] ?? [], of: id, as: neighbour.link, &turn) }
    let ids = stalled.filter { assembler.count(of: $0) > 0 }
    guard !ids.isEmpty else { return }
    let known = ids.flatMap { kept[$0] ?? [] }.map(\.id)
    perform(gossip.requestFragments(ids, having: known, from: neighbour, view(turn), &clock), &turn)
  }

  /// Adds archived fragments of an abandoned set to a new set, as if the neighbour had sent them now. Neighbours do not
  /// send archived fragments again.
  private mutating func takeKept(
    _ kept: [GossipArchive.Item], of id: FragmentID, as link: LinkID, _ turn: inout Turn
  ) {
    guard kept.count > assembler.count(of: id) else { return }
    for item in kept {
      guard let bytes = (try? PacketView(item.bytes))?.syncAnswer, let view = try? PacketView(bytes),
        let packet = try? Packet(view), let fragment = try? Fragment(reading: packet.payload)
      else { continue }
      _ = handle(fragment, of: packet, Arrival(view: view, link: link, isReassembled: false, isAnswer: true), &turn)
      if assembler.count(of: id) == 0 { return }
    }
  }
}

/// Private messages and receipts for mutual favourites without a path in the mesh. Facts: bitchat.md section 11.
extension MeshEngine {
  /// This node's key for the uplink, as text; nil if it never had one.
  public var uplinkKey: String? { uplink.ownKey }

  /// The key of a peer for the uplink, as text; nil if the peer has stated none.
  public func uplinkKey(of peer: PeerID) -> String? { uplink.key(of: peer) }

  /// Restores the key of this node of an earlier run.
  public mutating func restore(uplinkKey: String) { uplink.restore(ownKey: uplinkKey) }

  /// Records the key of a peer from an earlier run.
  public mutating func note(uplinkKey: String, of peer: PeerID, at now: Instant) {
    // Nothing is under way before the node has started.
    _ = uplink.note(uplinkKey, of: peer, isFavourite: favourites.contains(peer), at: now)
  }

  /// The time of a peer's latest favourite notice, in milliseconds since 1970 like `time`, the present; 0 if unknown.
  public func noticeTime(of peer: PeerID, at time: UInt64) -> UInt64 { uplink.noticeTime(of: peer, at: time) }

  /// Records the time of a peer's latest favourite notice of an earlier run: relays may deliver older ones again.
  public mutating func note(noticeTime: UInt64, of peer: PeerID) {
    uplink.noteNotice(of: peer, at: noticeTime, isFavourite: favourites.contains(peer))
  }

  /// Records the time of a message from a session in the mesh, if it is a favourite notice and the clock is right.
  mutating func noteNoticeTime(of message: PrivateMessage, from peer: PeerID, _ turn: Turn) {
    guard canSend, FavoriteNotice(text: message.text) != nil else { return }
    note(noticeTime: turn.time, of: peer)
  }

  /// Records what a favourite notice means for the uplink. The program erases the packets for a peer that is no longer
  /// a mutual favourite, so they must be handed over again if it becomes one.
  private mutating func noteUplink(_ notice: FavoriteNotice, of peer: PeerID, _ turn: inout Turn) {
    if let key = notice.npub {
      perform(uplink.note(key, of: peer, isFavourite: favourites.contains(peer), at: turn.now), &turn)
    }
    if notice.isFavorite { uplink.hurry(at: turn.now) } else { perform(uplink.withdraw(peer), &turn) }
  }

  /// Handles a text that was received over the uplink from `key`, the authenticated key of the sender, as text. Throws
  /// the reason why the text is dropped.
  public mutating func receive(
    uplinked text: String, from key: String, at now: Instant, time: UInt64
  ) throws(UplinkRefusal) -> [Action] {
    isDueKnown = false
    var turn = Turn(now: now, time: time)
    do throws(UplinkRefusal) {
      perform(try uplink.receive(text, from: key, uplinkContext(turn)), &turn)
      return turn.actions
    } catch {
      counters.uplink.dropped[error, default: 0] += 1
      throw error
    }
  }

  private func uplinkContext(_ turn: Turn) -> Uplink.Context {
    Uplink.Context(
      view: view(turn), noiseKey: identity.noiseKey, isSealing: configuration.sealsUplink, favourites: favourites,
      favouredBy: courier.favouredBy)
  }

  private mutating func openUplink(_ key: String, _ turn: inout Turn) {
    guard uplink.open(key, at: turn.now) else { return }
    for peer in favourites.sorted() { oweNotice(to: peer, true, at: turn.now) }
  }

  mutating func returnByUplink(_ receipt: NoisePayload, to peer: PeerID, _ turn: inout Turn) {
    let context = uplinkContext(turn)
    perform(uplink.answer(receipt, to: peer, context, randomFrom: &random), &turn)
  }

  /// Handles the arrival of a message, over the mesh or the uplink.
  mutating func settleUplink(_ id: MessageID, of peer: PeerID, _ turn: inout Turn) {
    perform(uplink.settle(id, of: peer), &turn)
  }

  /// Looks for other ways to peers that may no longer be reachable over the mesh.
  mutating func findOtherWays(at now: Instant) {
    courier.hurry(at: now)
    uplink.hurry(at: now)
  }

  /// Passes the messages and read receipts that have no path in the mesh to the uplink program.
  mutating func uplinkWhatIsDue(_ turn: inout Turn) {
    guard configuration.role.converses, let due = uplink.deadline, due <= turn.now else { return }
    let (context, outbox) = (uplinkContext(turn), messages.outbox)
    let stranded = outbox.stranded { Courier.hasNoPath($0, since: $1, context.view) }
    let intents = uplink.handOver(
      stranded, messages.owed.waitingReceipts, isWaiting: outbox.isWaiting, context, randomFrom: &random)
    perform(intents, &turn)
  }
}
