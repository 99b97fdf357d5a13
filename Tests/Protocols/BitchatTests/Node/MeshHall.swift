import Common
import Crypto
import Noise

@testable import Bitchat
@testable import BitchatWire

/// A simulated mesh: nodes, their links, the simulated radio between them, and virtual time.
struct MeshHall {
  /// A node, and the reports that its service has received.
  final class Node {
    var engine: MeshEngine
    let name: String
    /// Error of the node's clock in milliseconds.
    var clockError: Int64 = 0
    var heard: [PublicMessage] = []
    var told: [PrivateMessage] = []
    /// The sender of each private message.
    var toldFrom: [PeerID] = []
    var progress: [UInt32: [MessageState]] = [:]
    var dates: [UInt32: UInt64] = [:]
    var gone: [PeerID] = []
    var favourited: [PeerID] = []
    var cuts: [(LinkID, MeshEngine.CutReason)] = []
    var kept: [MeshEngine.PersistedItem] = []
    var proofs: [MeshEngine.ProofOutcome] = []
    var files: [ReceivedFile] = []
    var fileStates: [UInt32: [FileState]] = [:]
    var filePercents: [UInt32: [Int]] = [:]
    /// The progress reports of incoming files, and the files whose arrival has ended.
    var arriving: [FragmentSetID: [Int]] = [:]
    var arrivalsEnded: [FragmentSetID] = []
    var pongs: [UInt32: (milliseconds: UInt32, hops: Int)] = [:]
    var lostPings: [UInt32] = []
    var troubles: [PeerID: MeshEngine.PeerTrouble] = [:]
    /// Messages whose read receipts have arrived.
    var receiptsSettled: [MessageID] = []
    /// The last packets of files that the node has sent, and those that it has withdrawn.
    var filePackets: [[UInt8]] = []
    var withdrawn: [FilePackets] = []
    /// The moments at which packets of files were sent, in virtual time.
    var fileFrames: [Instant] = []
    /// Packets sent over links whose other end is the test.
    var sent: [LinkID: [[UInt8]]] = [:]
    /// Packets for the uplink, those that need not be repeated, and messages that went this way.
    var offered: [UplinkPacket] = []
    var uplinkDone: [UplinkPacket.ID] = []
    var wentByUplink: [UInt32] = []
    /// Whether the program of the uplink takes the packets that it gets.
    var hasUplink = true
    /// Whether the service confirms that it has stored messages, so that their senders get receipts.
    var keeps = true
    var id: PeerID { engine.identity.id }

    init(_ engine: MeshEngine, name: String) {
      (self.engine, self.name) = (engine, name)
    }
  }

  /// Sends a private message to a peer that is not a node of the hall.
  mutating func tell(_ text: String, to peer: PeerID, as number: UInt32, at node: Int) throws {
    carryOut(try nodes[node].engine.tell(text, to: peer, as: number, at: now, time: clock(of: node)), of: node)
  }

  /// A link between two nodes, given by their indices, the initiator first.
  struct Wire {
    let ends: (Int, Int)
    var isUp = true
  }

  /// A frame that a node has sent.
  struct Frame {
    let bytes: [UInt8]
    let link: LinkID
    let from: Int
    /// Nil where the other end of the link is the test.
    let to: Int?

    var type: MessageType { MessageType(rawValue: bytes.count > 1 ? bytes[1] : 0) }
    var sender: PeerID? { (try? PacketView(bytes))?.sender }
  }

  /// A frame that an eavesdropper sends on a link, and the delay after the frame that caused it.
  struct Injection {
    let bytes: [UInt8]
    let link: LinkID
    let node: Int
    var after = Duration.milliseconds(1)
  }

  private struct Flight {
    let due: Instant
    let number: Int
    let bytes: [UInt8]
    let link: LinkID
    let to: Int
    /// Whether this is the report to the sender that the link has taken a packet of a file.
    var isRoom = false
  }

  private struct End: Hashable {
    let link: LinkID
    let node: Int
  }

  /// Wall clock at the beginning of virtual time, in milliseconds since 1970.
  static let epoch: UInt64 = 1_800_000_000_000
  /// Lower bound of the numbers of links whose other end is the test.
  private static let strangers: UInt64 = 1_000_000

  private(set) var nodes: [Node] = []
  private(set) var now = Instant.zero
  private(set) var wires: [LinkID: Wire] = [:]
  private var flights: [Flight] = []
  private var strangerLinks: UInt64 = 0
  private var sent = 0
  /// The moment when a link will have taken the packets of files that wait for it, and their number.
  private var takenAt: [End: Instant] = [:]
  private var waiting: [End: Int] = [:]
  private var random: SeededRandom
  /// Time from sending to arrival, in milliseconds.
  var latency: ClosedRange<Int64> = 5...15
  /// Packet loss in percent.
  var loss: Int64 = 0
  /// Time in which a link takes a packet of a file.
  var filePacketTime = Duration.milliseconds(3)
  /// Links whose radio takes no packets of files, so that their buffers never drain.
  var stalled: Set<LinkID> = []
  /// Called with each packet; false drops it.
  var passes: (_ bytes: [UInt8], _ from: Int, _ to: Int) -> Bool = { _, _, _ in true }
  /// Called with each frame when it is sent; returns the frames that an eavesdropper sends on links.
  var attacker: ((_ frame: Frame) -> [Injection])?
  /// Record of the packets on the simulated radio.
  var overheard: Overheard?
  /// Called with the number of each effect that was carried out, counted from 1.
  var carriedOut: (Int) -> Void = { _ in }
  private(set) var actions = 0
  /// Checks that no node uses a nonce twice.
  let nonces = NonceWatch()
  /// Number of packets on the simulated radio.
  private(set) var packets = 0

  init(seed: UInt64 = 1) {
    random = SeededRandom(seed: seed)
  }

  var time: UInt64 { Self.epoch + UInt64(Instant.zero.duration(to: now) / .milliseconds(1)) }

  /// Adds nodes that are started and have a trusted clock.
  mutating func add(
    _ names: [String], limits: SessionLimits = MeshEngine.sessionLimits,
    _ adjust: (inout MeshEngine.Configuration) -> Void = { _ in }
  ) {
    for name in names {
      var configuration = MeshEngine.Configuration(nickname: name)
      adjust(&configuration)
      let identity = MeshEngine.Identity(
        noiseKey: X25519.PrivateKey(randomFrom: &random), signingKey: Ed25519.PrivateKey(randomFrom: &random))
      let seed = random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
      nodes.append(
        Node(
          MeshEngine(
            identity: identity, configuration: configuration, random: SeededRandom(seed: seed), limits: limits),
          name: name))
      handle(.clock(isTrusted: true), at: nodes.count - 1)
      handle(.start, at: nodes.count - 1)
    }
  }

  // MARK: Links

  @discardableResult
  mutating func connect(_ one: Int, _ other: Int, frameLimit: Int = 512) -> LinkID {
    let link = LinkID(UInt64(wires.count + 1))
    wires[link] = Wire(ends: (one, other))
    handle(.linkOpened(link, frameLimit: frameLimit, isOurs: true, from: Self.origin(of: other)), at: one)
    handle(.linkOpened(link, frameLimit: frameLimit, isOurs: false, from: Self.origin(of: one)), at: other)
    return link
  }

  private static func origin(of node: Int) -> DeviceOrigin { DeviceOrigin(address: 0xA0DE_0000 + UInt64(node)) }

  mutating func disconnect(_ link: LinkID) {
    guard let wire = wires[link], wire.isUp else { return }
    wires[link]?.isUp = false
    handle(.linkClosed(link), at: wire.ends.0)
    handle(.linkClosed(link), at: wire.ends.1)
  }

  /// The links that are up between two nodes.
  func links(_ one: Int, _ other: Int) -> [LinkID] {
    wires.filter { $0.value.isUp && [$0.value.ends.0, $0.value.ends.1].sorted() == [one, other].sorted() }.map(\.key)
  }

  // MARK: Restarts

  /// Ends a node, closes its links, and starts a new engine with the stored state.
  mutating func restart(_ node: Int) {
    for (link, wire) in wires.sorted(by: { $0.key.number < $1.key.number })
    where wire.isUp && (wire.ends.0 == node || wire.ends.1 == node) { disconnect(link) }
    let old = nodes[node]
    var engine = MeshEngine(
      identity: old.engine.identity, configuration: old.engine.configuration,
      random: SeededRandom(seed: draw(1...1_000_000_000).magnitude))
    for keepsake in old.kept {
      if case .pin(let peer, let key, let isProven) = keepsake {
        engine.restorePin(of: peer, key, isProven: isProven, at: now)
      }
    }
    for peer in old.engine.verified { _ = engine.handle(.verified(peer, true), at: now, time: time) }
    for envelope in old.carriedLast.values { engine.restore(envelope) }
    for message in old.outgoingLast.values { _ = try? engine.restore(message, at: now, time: time) }
    for (message, peer) in zip(old.told, old.toldFrom) { engine.restoreReceived(message.id, from: peer, at: now) }
    nodes[node].engine = engine
    handle(.clock(isTrusted: true), at: node)
    handle(.start, at: node)
  }

  // MARK: What happens

  mutating func handle(_ event: MeshEngine.Event, at node: Int) {
    carryOut(nodes[node].engine.handle(event, at: now, time: clock(of: node)), of: node)
  }

  mutating func say(_ text: String, at node: Int) -> PacketID? {
    guard let said = nodes[node].engine.say(text, at: now, time: clock(of: node)) else { return nil }
    carryOut(said.actions, of: node)
    return said.packet
  }

  mutating func tell(_ text: String, to peer: Int, as number: UInt32 = 1, at node: Int) throws {
    carryOut(
      try nodes[node].engine.tell(text, to: nodes[peer].id, as: number, at: now, time: clock(of: node)), of: node)
  }

  /// Delivers a text to a node over the uplink.
  ///
  /// - Returns: the reason if it is dropped.
  @discardableResult
  mutating func bring(_ text: String, from key: String, to node: Int) -> UplinkRefusal? {
    do throws(UplinkRefusal) {
      carryOut(
        try nodes[node].engine.receive(uplinked: text, from: key, at: now, time: clock(of: node)), of: node)
      return nil
    } catch {
      return error
    }
  }

  /// Asks a node for the proof that it has the keys of a code: its own signing key, unless the test says otherwise.
  mutating func challenge(_ peer: Int, signingKey: Ed25519.PublicKey? = nil, at node: Int) throws {
    let key = signingKey ?? nodes[peer].engine.identity.signingKey.publicKey
    carryOut(
      try nodes[node].engine.challenge(nodes[peer].id, signingKey: key, at: now, time: clock(of: node)), of: node)
  }

  /// Sends a payload inside the session of two nodes that the sender's engine would not send.
  mutating func seal(_ payload: NoisePayload, to peer: Int, at node: Int) {
    var turn = MeshEngine.Turn(now: now, time: clock(of: node))
    nodes[node].engine.seal(payload, for: nodes[peer].id, &turn)
    carryOut(turn.actions, of: node)
  }

  /// Opens a link whose other end is the test. By default all links of one stranger come from one device.
  @discardableResult
  mutating func connect(
    stranger: Stranger? = nil, to node: Int, frameLimit: Int = 512, from origin: DeviceOrigin? = nil
  ) -> LinkID {
    strangerLinks += 1
    let origin = origin ?? stranger.map { DeviceOrigin(address: $0.id.rawValue & 0xFFFF_FFFF_FFFF) }
    let link = LinkID(Self.strangers + strangerLinks)
    handle(.linkOpened(link, frameLimit: frameLimit, isOurs: false, from: origin), at: node)
    if let stranger { inject(stranger.announce(at: time), on: link, to: node) }
    return link
  }

  /// Delivers bytes to a node as if its peer had sent them.
  mutating func inject(_ bytes: [UInt8], on link: LinkID, to node: Int) {
    handle(.received(bytes, on: link), at: node)
  }

  mutating func sendFile(
    _ content: [UInt8], named name: String = "notes.bin", mime: String? = nil, to peer: Int? = nil,
    as number: UInt32 = 1,
    at node: Int
  ) throws {
    let file = try SharedFile(name: name, mime: mime, content: content)
    carryOut(
      try nodes[node].engine.send(
        file, to: peer.map { nodes[$0].id }, as: number, at: now, time: clock(of: node)), of: node)
  }

  mutating func ping(_ peer: Int, as number: UInt32 = 1, at node: Int) throws {
    carryOut(try nodes[node].engine.ping(nodes[peer].id, as: number, at: now, time: clock(of: node)), of: node)
  }

  private func clock(of node: Int) -> UInt64 { UInt64(Int64(time) + nodes[node].clockError) }

  /// Advances virtual time, at most until the condition of the test holds.
  mutating func pass(_ duration: Duration, until isEnough: () -> Bool = { false }) {
    let end = now.advanced(by: duration)
    while let next = nextMoment, next <= end {
      now = max(now, next)
      if let flight = flights.first, flight.due <= now {
        flights.removeFirst()
        if flight.isRoom {
          let end = End(link: flight.link, node: flight.to)
          waiting[end, default: 1] -= 1
          handle(.room(flight.link, waiting: waiting[end] ?? 0), at: flight.to)
        } else if wires[flight.link]?.isUp ?? (flight.link.number > Self.strangers) {
          handle(.received(flight.bytes, on: flight.link), at: flight.to)
        }
      } else {
        for node in nodes.indices {
          if let due = nodes[node].engine.deadline, due <= now { handle(.timer, at: node) }
        }
      }
      if isEnough() { return }
    }
    now = end
  }

  /// Advances virtual time without running any node, as during a suspend.
  mutating func leap(_ duration: Duration) { now = now.advanced(by: duration) }

  private var nextMoment: Instant? {
    let timers = nodes.compactMap(\.engine.deadline).min().map { max($0, now) }
    return [flights.first?.due, timers].compactMap(\.self).min()
  }

  private mutating func carryOut(_ actions: [MeshEngine.Action], of node: Int) {
    for action in actions {
      switch action {
      case .send(let bytes, let link, let kind):
        if kind == .file {
          nodes[node].fileFrames.append(now)
          nodes[node].filePackets = nodes[node].filePackets.suffix(9) + [bytes]
        }
        send(bytes, on: link, from: node, isFile: kind == .file)
      case .cut(let link, let reason):
        nodes[node].cuts.append((link, reason))
        disconnect(link)
      case .heard(let message): nodes[node].heard.append(message)
      case .told(let message, let peer, _):
        nodes[node].told.append(message)
        nodes[node].toldFrom.append(peer)
        if nodes[node].keeps { handle(.kept(message.id, from: peer), at: node) }
      case .toldAgain(let id, let peer): if nodes[node].keeps { handle(.kept(id, from: peer), at: node) }
      case .progress(let number, let state): nodes[node].progress[number, default: []].append(state)
      case .dated(let number, let time): nodes[node].dates[number] = time
      case .gone(let peer): nodes[node].gone.append(peer)
      case .keep(let keepsake): nodes[node].kept.append(keepsake)
      case .favourited(let peer, _, let id):
        nodes[node].favourited.append(peer)
        if nodes[node].keeps { handle(.kept(id, from: peer), at: node) }
      case .proof(_, let outcome): nodes[node].proofs.append(outcome)
      case .file(let file):
        nodes[node].files.append(file)
        if nodes[node].keeps, let receipt = file.receipt { handle(.fileKept(receipt, from: file.sender), at: node) }
      case .fileState(let number, let state): nodes[node].fileStates[number, default: []].append(state)
      case .fileProgress(let number, let percent): nodes[node].filePercents[number, default: []].append(percent)
      case .pong(let number, let milliseconds, let hops): nodes[node].pongs[number] = (milliseconds, hops)
      case .pingLost(let number): nodes[node].lostPings.append(number)
      case .withdraw(let packets): nodes[node].withdrawn.append(packets)
      case .uplink(let packet):
        nodes[node].offered.append(packet)
        if nodes[node].hasUplink { handle(.uplinkTaken(packet.id), at: node) }
      case .uplinkDone(let id): nodes[node].uplinkDone.append(id)
      case .wentByUplink(let number): nodes[node].wentByUplink.append(number)
      case .arriving(let file): nodes[node].arriving[file.id, default: []].append(file.percent)
      case .arrivalEnded(let id): nodes[node].arrivalsEnded.append(id)
      case .trouble(let peer, _, let trouble): nodes[node].troubles[peer] = trouble
      case .bound, .peer, .session, .noticeSettled, .state: break
      case .receiptSettled(let id, _): nodes[node].receiptsSettled.append(id)
      }
      self.actions += 1
      carriedOut(self.actions)
    }
  }

  private mutating func send(_ bytes: [UInt8], on link: LinkID, from node: Int, isFile: Bool) {
    var leaves = now
    if isFile, !stalled.contains(link) {
      let end = End(link: link, node: node)
      leaves = max(now, takenAt[end] ?? now).advanced(by: filePacketTime)
      takenAt[end] = leaves
      waiting[end, default: 0] += 1
      fly(Flight(due: leaves, number: 0, bytes: [], link: link, to: node, isRoom: true))
    }
    guard let wire = wires[link] else {
      nodes[node].sent[link, default: []].append(bytes)
      return beHeard(Frame(bytes: bytes, link: link, from: node, to: nil))
    }
    guard wire.isUp else { return }
    let to = wire.ends.0 == node ? wire.ends.1 : wire.ends.0
    packets += 1
    overheard?.packets.append(Overheard.Packet(bytes: bytes, from: node, to: to, at: now))
    nonces.see(bytes)
    beHeard(Frame(bytes: bytes, link: link, from: node, to: to))
    guard passes(bytes, node, to), draw(1...100) > loss else { return }
    sent += 1
    // Packets of one link arrive in order.
    let earliest = flights.last { $0.link == link && $0.to == to && !$0.isRoom }?.due ?? now
    let due = max(earliest, leaves.advanced(by: .milliseconds(draw(latency))))
    fly(Flight(due: due, number: sent, bytes: bytes, link: link, to: to))
  }

  private mutating func beHeard(_ frame: Frame) {
    for injection in attacker?(frame) ?? [] {
      sent += 1
      fly(
        Flight(
          due: now.advanced(by: injection.after), number: sent, bytes: injection.bytes, link: injection.link,
          to: injection.node))
    }
  }

  private mutating func fly(_ flight: Flight) {
    let place = flights.lastIndex { $0.due <= flight.due }.map { $0 + 1 } ?? 0
    flights.insert(flight, at: place)
  }

  private mutating func draw(_ range: ClosedRange<Int64>) -> Int64 {
    let word = random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
    return range.lowerBound + Int64(word % UInt64(range.upperBound - range.lowerBound + 1))
  }
}

extension MeshHall.Node {
  /// The envelopes whose last stored record is not a deletion.
  var carriedLast: [CourierID: CarriedEnvelope] {
    kept.reduce(into: [:]) { envelopes, keepsake in
      switch keepsake {
      case .carried(let envelope): envelopes[envelope.id] = envelope
      case .carriedNoMore(let id): envelopes[id] = nil
      default: break
      }
    }
  }

  var carriedIDs: Set<CourierID> { Set(carriedLast.keys) }

  /// The messages that wait, as stored.
  var outgoingLast: [UInt32: OutgoingMessage] {
    kept.reduce(into: [:]) { messages, keepsake in
      switch keepsake {
      case .outgoing(let message): messages[message.number] = message
      case .settled(let number): messages[number] = nil
      default: break
      }
    }
  }
}
