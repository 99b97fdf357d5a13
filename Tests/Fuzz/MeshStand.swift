import Common
import Crypto

@testable import Bitchat
@testable import BitchatWire

/// Two nodes of a mesh, the links between them, and a stranger with links of its own, driven by a script.
struct MeshStand {
  private struct Flight {
    let to: Int
    let link: LinkID
    let bytes: [UInt8]
  }

  private(set) var reached: Set<String> = []
  private var engines: [MeshEngine] = []
  private let stranger: MeshEngine.Identity
  private var now = Instant.zero
  /// Milliseconds by which the wall clock is offset.
  private var offset: Int64 = 0
  private var air: [Flight] = []
  /// Packets that arrived before, for replays.
  private var past: [Flight] = []
  /// Links of both nodes, up to three, and one of the stranger with each.
  private var links: [LinkID: (frameLimit: Int, isShared: Bool)] = [:]
  private var nextLink: UInt64 = 1
  private var said: [Set<String>] = [[], []]
  private var told: [Set<String>] = [[], []]
  private var files: [Set<[UInt8]>] = [[], []]
  private var numbers: UInt32 = 0
  /// The dialects that the nodes prefer.
  private let dialects: [MeshDialect]

  static let goals: Set = [
    "neighbours", "a line", "a private text", "a delivery", "a fragment", "a stranger's line", "an answer", "a copy",
    "a cut", "a peer gone", "a letter", "a letter carried",
    "a file", "a private file", "a cancelled file", "a pong",
  ]

  /// The goals of nodes of dialect S.
  static let seedGoals: Set = goals.union([
    "a hello", "an answer to a hello", "a line in dialect S", "a receipt in dialect S", "a fragment in dialect S",
    "sealed in dialect S", "a leave in dialect S",
  ])

  /// `seeds` with the dialects of both nodes in front: S and S, S and L.
  static let seedSeeds: [[UInt8]] =
    seeds.map { [3] + $0 } + seeds.map { [1] + $0 } + [
      // The stranger sends in dialect S: announce, public message, hello, answer and leave.
      [3, 5, 100, 10, 64, 7, 10, 65, 7, 10, 67, 0, 10, 68, 0, 10, 66, 7, 10, 69, 7, 2, 1, 0]
    ]

  /// In each step the low four bits are the kind, the high four the side; arguments of the kind follow.
  static let seeds: [[UInt8]] = [
    // A link, announces, requests; each node sends a public message and a private one.
    [5, 100, 1, 2, 0, 20, 1, 4, 3, 0x14, 3, 1, 2, 0, 5, 1, 3, 5, 1, 0x13, 5, 1, 2, 0, 5, 1, 1],
    // A long public message and a long private one.
    [5, 100, 1, 2, 0, 20, 1, 4, 255, 3, 255, 2, 0, 200, 1, 1, 2, 0, 200, 1, 1],
    // The stranger announces itself, sends a message, whole and in fragments, and repeats it.
    [5, 100, 10, 0, 7, 10, 1, 7, 10, 1, 7, 10, 2, 7, 10, 3, 0, 10, 4, 7, 10, 5, 7, 2, 1, 0, 9, 0],
    // Links open and close, and both sides connect.
    [5, 100, 1, 0x15, 100, 1, 2, 0, 100, 1, 6, 0, 5, 50, 1, 2, 0, 200, 1],
    // Replayed packets, unchanged and altered.
    [5, 100, 8, 0, 4, 1, 1, 9, 0, 9, 1, 9, 2, 8, 1, 7, 1],
    // A public message is sent before they connect, and requested later.
    [4, 9, 2, 40, 0, 5, 100, 1, 2, 0, 30, 1, 2, 0, 30, 1],
    // One node leaves, or becomes idle.
    [5, 100, 1, 2, 0, 20, 1, 13, 0, 1, 2, 20, 0, 13, 1, 13, 2, 11, 0, 11, 1, 12, 8, 0],
    // The stranger deposits envelopes, for this node and for others, and returns.
    [10, 0, 7, 10, 6, 7, 10, 7, 7, 10, 15, 7, 10, 8, 7, 2, 20, 0, 10, 0, 7, 2, 255, 255, 2, 255, 255],
    // Files, public and private; one is cancelled.
    [
      5, 230, 1, 2, 0, 20, 1, 13, 4, 1, 13, 84, 1, 2, 0, 1, 1, 13, 92, 1, 2, 0, 50, 1, 2, 0, 50, 1, 13, 7, 1, 2, 0, 1,
      1,
    ],
    // Another service needs the radio meanwhile.
    [5, 230, 1, 2, 0, 20, 1, 13, 14, 13, 84, 1, 2, 0, 20, 13, 5, 13, 84, 13, 6, 1, 2, 0, 20, 1],
    // Malformed packets.
    [5, 100, 7, 40, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  ]

  init(dialects: [MeshDialect] = [.live, .live]) {
    self.dialects = dialects
    var random = SeededRandom(seed: 10)
    let identities = (0..<3).map { _ in
      MeshEngine.Identity(
        noiseKey: X25519.PrivateKey(randomFrom: &random), signingKey: Ed25519.PrivateKey(randomFrom: &random))
    }
    stranger = identities[2]
    for side in 0...1 {
      engines.append(
        MeshEngine(
          identity: identities[side], configuration: Self.configuration(side, dialects[side]),
          random: SeededRandom(seed: UInt64(side))))
      handle(side, .clock(isTrusted: true))
      handle(side, .start)
    }
  }

  private static func configuration(_ side: Int, _ dialect: MeshDialect) -> MeshEngine.Configuration {
    var configuration = MeshEngine.Configuration(nickname: "node \(side)")
    configuration.dialect = dialect
    return configuration
  }

  mutating func step(_ script: inout Script) {
    let control = script.byte()
    let side = Int(control >> 4) % 2
    switch control & 0xF {
    case 0: deliver(Int(script.byte()))
    case 1: for _ in 0..<400 where !air.isEmpty { deliver(0) }
    case 2: pass(.milliseconds(script.u16() * 100))
    case 3: tell(side, script.byte())
    case 4: say(side, script.byte())
    case 5: open(side, 40 + 2 * Int(script.byte()), isShared: true)
    case 6: close(script.byte())
    case 7: inject(side, script.value())
    case 8: alter(Int(script.byte()), script.byte())
    case 9: if !past.isEmpty { arrive(past[Int(script.byte()) % past.count]) }
    case 10: speak(side, script.byte(), script.byte())
    case 11: favour(side, script.byte())
    case 12: offset += Int64(script.u16()) * 10 - 300_000
    case 13: change(side, script.byte())
    case 14: if !air.isEmpty { air.remove(at: Int(script.byte()) % air.count) }
    default: if let deadline = engines.compactMap(\.deadline).min() { pass(now.duration(to: deadline)) }
    }
    for engine in engines { check(engine) }
  }

  // MARK: Steps

  private func text(_ length: UInt8, _ side: Int) -> String {
    numbers.description + " of \(side) " + String(repeating: "äb€ ", count: Int(length))
  }

  private mutating func say(_ side: Int, _ length: UInt8) {
    numbers += 1
    let text = text(length, side)
    guard let actions = engines[side].say(text, at: now, time: time)?.actions else { return }
    said[side].insert(text)
    carryOut(actions, side)
  }

  private mutating func tell(_ side: Int, _ length: UInt8) {
    numbers += 1
    let (text, peer) = (text(length, side), engines[1 - side].identity.id)
    for piece in taken({ try PrivateText.pieces(of: text) }) ?? [] { said[side].insert(piece) }
    let (number, now, time) = (numbers, now, time)
    if let actions = taken({ try engines[side].tell(text, to: peer, as: number, at: now, time: time) }) {
      carryOut(actions, side)
    }
  }

  private mutating func open(_ side: Int, _ frameLimit: Int, isShared: Bool) {
    guard links.count < 5 else { return }
    let link = LinkID(nextLink)
    nextLink += 1
    links[link] = (frameLimit, isShared)
    handle(side, .linkOpened(link, frameLimit: frameLimit, isOurs: isShared))
    if isShared { handle(1 - side, .linkOpened(link, frameLimit: frameLimit, isOurs: false)) }
  }

  private mutating func close(_ choice: UInt8) {
    guard !links.isEmpty else { return }
    let link = links.keys.sorted { $0.number < $1.number }[Int(choice) % links.count]
    drop(link)
  }

  private mutating func drop(_ link: LinkID) {
    guard links.removeValue(forKey: link) != nil else { return }
    air.removeAll { $0.link == link }
    for side in 0...1 { handle(side, .linkClosed(link)) }
  }

  /// Delivers bytes on the stranger's link with a node.
  private mutating func inject(_ side: Int, _ bytes: [UInt8]) {
    if !links.values.contains(where: { !$0.isShared }) { open(side, 512, isShared: false) }
    guard let link = links.filter({ !$0.value.isShared }).keys.min(by: { $0.number < $1.number }) else { return }
    handle(side, .received(bytes, on: link))
  }

  /// Sends a packet of the stranger with a valid signature.
  private mutating func speak(_ side: Int, _ kind: UInt8, _ timeToLive: UInt8) {
    let payload: [UInt8]?
    let type: MessageType
    // This bit selects dialect S.
    switch kind & 0x40 == 0 ? kind % 9 : 64 + kind % 6 {
    case 64:
      type = .announce
      payload = taken {
        try Announcement(
          nickname: "stranger", noiseKey: stranger.noiseKey.publicKey, signingKey: stranger.signingKey.publicKey,
          dialect: .seed
        ).bytes
      }
    case 65, 66:
      type = SeedNumbers.seed.message
      let text = String(repeating: "a stranger's line \(kind) ", count: kind & 1 == 0 ? 300 : 1)
      payload = SeedMessage(timestamp: time, id: "\(kind)", sender: "stranger", text: text).bytes
    case 67:
      type = SeedNumbers.seed.versionHello
      payload = taken {
        try VersionHello(versions: [.v1], preferred: 1, clientVersion: "stranger", platform: "\(kind)").bytes
      }
    case 68:
      type = SeedNumbers.seed.versionAck
      payload = taken {
        try VersionAck(agreed: kind >> 7, serverVersion: "stranger", platform: "", isRejected: kind & 0x20 != 0).bytes
      }
    case 69: (type, payload) = (SeedNumbers.seed.leave, [])
    case 0:
      type = .announce
      payload = taken {
        try Announcement(
          nickname: "stranger", noiseKey: stranger.noiseKey.publicKey, signingKey: stranger.signingKey.publicKey
        ).bytes
      }
    case 1: (type, payload) = (.message, Array("a stranger's line".utf8))
    case 2: (type, payload) = (.message, Array(String(repeating: "a stranger's line \(kind) ", count: 300).utf8))
    case 3: (type, payload) = (.requestSync, taken { try SyncRequest(filter: SyncFilter([])).bytes })
    case 4: (type, payload) = (.noiseHandshake, [UInt8](repeating: kind, count: 32))
    case 5: (type, payload) = (.leave, [])
    default: (type, payload) = (.courier, letter(kind, to: side))
    }
    let isForNode =
      type == .noiseHandshake || kind & 0x40 == 0 && kind % 9 > 5
      || [67, 68].contains(64 + kind % 6) && kind & 0x40 != 0
    let recipient = isForNode ? engines[side].identity.id : nil
    let packet = Packet(
      type: type, timeToLive: timeToLive, timestamp: time, sender: stranger.id, recipient: recipient,
      payload: payload ?? [])
    guard let bytes = taken({ try packet.signed(with: stranger.signingKey).encoded() }),
      let view = taken({ try PacketView(bytes) })
    else { return }
    guard bytes.count > 512, let plan = FragmentPlan(view, id: FragmentID(rawValue: time), frameLimit: 512) else {
      return inject(side, bytes)
    }
    for fragment in plan.fragments { inject(side, taken { try fragment.encoded() } ?? []) }
  }

  /// An envelope of the stranger: for the node that gets it, for the other one, or for itself; some with too long a
  /// lifetime.
  private func letter(_ kind: UInt8, to side: Int) -> [UInt8]? {
    let keys = [engines[side].identity, engines[1 - side].identity, stranger].map(\.noiseKey.publicKey)
    var random = SeededRandom(seed: UInt64(kind))
    return taken {
      try CourierEnvelope(
        sealing: .privateMessage(PrivateMessage(id: MessageID("letter \(kind)"), text: "a stranger's letter")),
        for: keys[Int(kind % 9) - 6], from: stranger.noiseKey, at: time, expiry: time + UInt64(kind) * 400_000,
        randomFrom: &random
      ).with(copies: kind).bytes
    }
  }

  private mutating func favour(_ side: Int, _ kind: UInt8) {
    let peer = kind & 1 == 0 ? engines[1 - side].identity.id : stranger.id
    switch kind >> 1 & 3 {
    case 0: handle(side, .favourite(peer, kind & 8 == 0))
    case 1: handle(side, .block(peer, kind & 8 == 0))
    case 2: handle(side, .verified(peer, kind & 8 == 0))
    default: handle(side, .announce)
    }
  }

  private mutating func change(_ side: Int, _ kind: UInt8) {
    switch kind % 8 {
    case 4: sendFile(side, isPrivate: kind & 8 != 0, length: Int(kind >> 4) * 200 + 1)
    case 5: handle(side, .cancelFile(numbers))
    case 6: handle(side, .quiet(kind & 8 != 0))
    case 7:
      numbers += 1
      let (number, now, time, peer) = (numbers, now, time, engines[1 - side].identity.id)
      if let actions = taken({ try engines[side].ping(peer, as: number, at: now, time: time) }) {
        carryOut(actions, side)
      }
    case 0:
      handle(side, .stop)
      for link in Array(links.keys) { drop(link) }
    case 1: handle(side, .start)
    case 2: handle(side, .clock(isTrusted: kind & 4 == 0))
    default: handle(side, .forget(kind & 4 == 0 ? engines[1 - side].identity.id : stranger.id))
    }
  }

  private mutating func sendFile(_ side: Int, isPrivate: Bool, length: Int) {
    numbers += 1
    let content = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* $0 &+ Int(numbers)) }
    let (number, now, time, peer) = (numbers, now, time, engines[1 - side].identity.id)
    guard let file = taken({ try SharedFile(name: "file of \(side)", mime: nil, content: content) }) else { return }
    files[side].insert(content)
    let actions = taken {
      try engines[side].send(file, to: isPrivate ? peer : nil, as: number, at: now, time: time)
    }
    if let actions { carryOut(actions, side) }
  }

  private mutating func alter(_ index: Int, _ place: UInt8) {
    guard !air.isEmpty else { return }
    let flight = air[index % air.count]
    var bytes = flight.bytes
    bytes[Int(place) % bytes.count] ^= 1 << (place % 8)
    air[index % air.count] = Flight(to: flight.to, link: flight.link, bytes: bytes)
  }

  private mutating func deliver(_ index: Int) {
    guard !air.isEmpty else { return }
    let flight = air.remove(at: index % air.count)
    past.append(flight)
    if past.count > 256 { past.removeFirst() }
    arrive(flight)
  }

  private mutating func arrive(_ flight: Flight) { handle(flight.to, .received(flight.bytes, on: flight.link)) }

  // MARK: Time and actions

  private var time: UInt64 {
    UInt64(1_800_000_000_000 + offset + Int64(Instant.zero.duration(to: now) / .milliseconds(1)))
  }

  private mutating func pass(_ duration: Duration) {
    now = now.advanced(by: max(duration, .zero))
    for side in 0...1 {
      // Due work may make further work due at once, but not without end.
      for link in Array(links.keys) { handle(side, .room(link, waiting: 0)) }
      for _ in 0..<8 where engines[side].deadline.map({ $0 <= now }) == true { handle(side, .timer) }
      promise(engines[side].deadline.map { $0 > now } ?? true, "what was due is done")
    }
  }

  private mutating func handle(_ side: Int, _ event: MeshEngine.Event) {
    let before = engines[side].counters
    carryOut(engines[side].handle(event, at: now, time: time), side)
    let after = engines[side].counters
    if after.duplicates > before.duplicates { reached.insert("a copy") }
    if after.courier.taken > before.courier.taken { reached.insert("a letter carried") }
    if after.answeredRequests > before.answeredRequests { reached.insert("an answer") }
  }

  private mutating func carryOut(_ actions: [MeshEngine.Action], _ side: Int) {
    for action in actions {
      switch action {
      case .send(let bytes, let link, _): send(bytes, on: link, from: side)
      case .cut(let link, _):
        reached.insert("a cut")
        drop(link)
      case .heard(let message): hear(message, side)
      case .told(let message, let peer, _):
        if peer == stranger.id {
          promise(message.text == "a stranger's letter", "a letter is as its sender wrote it")
          reached.insert("a letter")
        } else {
          promise(peer == engines[1 - side].identity.id, "what is told was said by a peer that there is a session with")
          promise(said[1 - side].contains(message.text), "what is told was said")
        }
        promise(
          told[side].insert(message.id.text).inserted || now > Instant.zero.advanced(by: .seconds(80_000)),
          "it is told once")
        reached.insert("a private text")
        handle(side, .kept(message.id, from: peer))
      case .toldAgain(let id, let peer):
        promise(told[side].contains(id.text), "what is told again was told")
        handle(side, .kept(id, from: peer))
      case .favourited(let peer, _, let id):
        promise(
          told[side].insert(id.text).inserted || now > Instant.zero.advanced(by: .seconds(80_000)),
          "a notice comes once")
        handle(side, .kept(id, from: peer))
      case .file(let file):
        promise(file.sender != stranger.id, "the stranger sends no files")
        promise(files[1 - side].contains(file.content), "a file is as its sender sent it")
        reached.insert(file.isPrivate ? "a private file" : "a file")
        if let receipt = file.receipt { handle(side, .fileKept(receipt, from: file.sender)) }
      case .fileState(_, .cancelled): reached.insert("a cancelled file")
      case .pong: reached.insert("a pong")
      case .progress(_, .delivered): reached.insert("a delivery")
      case .bound(_, let peer): if peer != stranger.id { reached.insert("neighbours") }
      case .gone: reached.insert("a peer gone")
      default: break
      }
    }
  }

  private mutating func hear(_ message: PublicMessage, _ side: Int) {
    promise(message.sender != engines[side].identity.id, "nobody hears itself")
    guard message.sender == engines[1 - side].identity.id else {
      promise(message.sender == stranger.id, "what is heard was said by somebody")
      promise(message.text.hasPrefix("a stranger's line"), "a line is as its sender said it")
      reached.insert("a stranger's line")
      return
    }
    promise(said[1 - side].contains(message.text), "a line is as its sender said it")
    reached.insert("a line")
  }

  private mutating func send(_ bytes: [UInt8], on link: LinkID, from side: Int) {
    guard let (frameLimit, isShared) = links[link] else { return }
    promise(bytes.count <= frameLimit, "a packet fits its link")
    let view = taken { try PacketView(bytes) }
    promise(view != nil, "what is sent is a packet")
    note(bytes)
    let isPartOfSeed = (0x0A...0x0C).contains(bytes[1]) || [0x05, 0x06, 0x07, 0x12].contains(bytes[1])
    promise(!isShared || !isPartOfSeed || dialects[1 - side] == .seed, "dialect S goes to those who speak it")
    if isShared, air.count < 1024 { air.append(Flight(to: 1 - side, link: link, bytes: bytes)) }
  }

  /// Records a sent packet by its number.
  private mutating func note(_ bytes: [UInt8]) {
    switch bytes[1] {
    case 0x04: reached.insert("a line in dialect S")
    case 0x05, 0x06: reached.insert("a receipt in dialect S")
    case 0x07: reached.insert("a leave in dialect S")
    case 0x0A...0x0C: reached.formUnion(["a fragment", "a fragment in dialect S"])
    case 0x12: reached.insert("sealed in dialect S")
    case 0x20: reached.insert(bytes[2] == 0 ? "a hello" : "a fragment")
    case 0x21:
      if let packet = taken({ try Packet(decoding: bytes) }),
        PacketMeaning(type: packet.type, payload: packet.payload) == .versionAck
      {
        reached.insert("an answer to a hello")
      }
    default: break
    }
  }

  private func check(_ engine: MeshEngine) {
    promise(engine.translator.talks.talks.count <= engine.neighbourhood.links.count, "talks end with their links")
    promise(engine.gate.unknown.count <= 64 && engine.gate.unknown.bytes <= 256 << 10, "chat that waits has a limit")
    promise(engine.assembler.count <= 128 && engine.assembler.bytes <= 8 << 20, "fragments have a limit")
    promise(engine.pending.count <= 1024 && engine.pending.bytes <= 2 << 20, "what is passed on has a limit")
    promise(engine.gossip.archive.bytes <= 6 << 20, "what is kept has a limit")
    promise(engine.messages.sessions.halfOpen <= 64, "handshakes under way have a limit")
    promise(engine.carried <= 40 && engine.courier.desk.bag.bytes <= 1 << 20, "what is carried has a limit")
    promise(engine.files.count <= 8, "files on their way have a limit")
    promise(engine.gate.budget.count <= engine.neighbourhood.links.count, "of links that are gone nothing stays")
  }
}
