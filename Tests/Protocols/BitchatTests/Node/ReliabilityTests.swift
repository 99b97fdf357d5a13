import Bytes
import Common
import Crypto
import Noise
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Faults known from other implementations.
@Suite("Mesh faults known from other implementations")
struct ReliabilityTests {
  /// Ann and Bob, neighbours who have a session.
  private func pair() throws -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    try hall.tell("first", to: 1, as: 1, at: 0)
    hall.pass(.seconds(3))
    return hall
  }

  @Test("The printed form of the mesh engine and its actions contains no key, text or nickname")
  func secrets() throws {
    var hall = MeshHall()
    hall.add(["nickname-of-ann", "nickname-of-bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    let ann = hall.nodes[0]
    let telling = try ann.engine.tell("very-private", to: hall.nodes[1].id, as: 1, at: hall.now, time: hall.time)
    let saying = ann.engine.say("rather-public", at: hall.now, time: hall.time)
    var actions = telling + (saying?.actions ?? [])
    for action in actions {
      if case .send(let bytes, _, _) = action {
        actions += hall.nodes[1].engine.handle(.received(bytes, on: LinkID(1)), at: hall.now, time: hall.time)
      }
    }
    var printed = ""
    for action in actions {
      dump(action, to: &printed)
      print(action, to: &printed)
      debugPrint(action, to: &printed)
    }
    for node in hall.nodes {
      dump(node.engine, to: &printed)
      print(node.engine, to: &printed)
      dump(node.engine.identity, to: &printed)
      dump(node.engine.counters.tallies, to: &printed)
    }
    for secret in ["very-private", "rather-public", "nickname-of"] { #expect(!printed.contains(secret)) }
    var random = SeededRandom(seed: 9)
    let keys = [random.bytes(32), random.bytes(32)]
    let identity = MeshEngine.Identity(
      noiseKey: try X25519.PrivateKey(copying: keys[0]), signingKey: try Ed25519.PrivateKey(copyingSeed: keys[1]))
    dump(identity, to: &printed)
    dump(
      MeshEngine(identity: identity, configuration: .init(nickname: "nickname-of-cem"), random: random), to: &printed)
    for key in keys {
      #expect(!printed.lowercased().contains(Hex.encode(key.prefix(8))))
      #expect(!printed.contains(key.prefix(6).map { "\($0)" }.joined(separator: ", ")))
    }
  }

  @Test("A payload that inflates to a wrong or excessive size is dropped before memory is allocated")
  func bombs() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let eve = Stranger(1)
    let link = hall.connect(stranger: eve, to: 0)
    func packet(original: UInt32, _ stream: [UInt8]) -> [UInt8] {
      let section = withUnsafeBytes(of: original.bigEndian, Array.init) + stream
      var bytes: [UInt8] = [2, MessageType.message.rawValue, 7] + withUnsafeBytes(of: hall.time.bigEndian, Array.init)
      bytes += [0x04] + withUnsafeBytes(of: UInt32(section.count).bigEndian, Array.init) + eve.id.bytes + section
      return bytes
    }
    let bad: [[UInt8]] = [
      packet(original: .max, [1, 2, 3]), packet(original: 1_179_761, [UInt8](repeating: 7, count: 2000)),
      packet(original: 1033 * 3, [1, 2, 3]), packet(original: 100, []), packet(original: 0, [1, 2, 3]),
      packet(original: 2000, [1, 2, 3]),
    ]
    let before = hall.nodes[0].engine.pending.count
    for bytes in bad { hall.inject(bytes, on: link, to: 0) }
    let counters = hall.nodes[0].engine.counters
    #expect(counters.malformed.values.reduce(counters.tooMuchInflation, +) == 6)
    #expect(counters.badSignatures == 0)
    #expect(hall.nodes[0].engine.pending.count == before)
  }

  @Test("Private messages in any order are shown once each, and replays are not shown", arguments: UInt64(1)...4)
  func anyOrder(seed: UInt64) throws {
    var hall = try pair()
    let (ann, bob) = (hall.nodes[0], hall.nodes[1])
    var random = SeededRandom(seed: seed)
    var packets: [[UInt8]] = []
    var replays: [[UInt8]] = []
    for number in UInt64(0)..<60 {
      let message = NoisePayload.privateMessage(
        try PrivateMessage(id: MessageID("id \(number)"), text: "text \(number)"))
      let payload = try ann.engine.messages.encrypt(message.bytes, for: bob.id, at: hall.now)
      func packet(at time: UInt64) throws -> [UInt8] {
        try Packet(type: .noiseEncrypted, timestamp: time, sender: ann.id, recipient: bob.id, payload: payload)
          .encoded()
      }
      packets.append(try packet(at: hall.time + number))
      // The packet is not signed: an eavesdropper can send it with another timestamp, and then it is a different
      // packet.
      replays.append(try packet(at: hall.time + 1000 + number))
    }
    for bytes in packets.shuffled(using: &random) { hall.inject(bytes, on: LinkID(1), to: 1) }
    let duplicates = bob.engine.counters.duplicates
    for bytes in replays.shuffled(using: &random) { hall.inject(bytes, on: LinkID(1), to: 1) }
    #expect(bob.engine.counters.duplicates == duplicates)
    #expect(bob.engine.messages.sessions.counters[.replayed] == 60)
    for bytes in packets.shuffled(using: &random) { hall.inject(bytes, on: LinkID(1), to: 1) }
    #expect(bob.engine.counters.duplicates == duplicates + 60)
    #expect(bob.engine.messages.sessions.counters[.replayed] == 60)
    #expect(bob.told.count == 61)
    #expect(Set(bob.told.map(\.text)).count == 61)
  }

  @Test("A replayed announce ends no session, and does not block messages on the peer's own link")
  func replayedAnnounce() throws {
    var hall = try pair()
    let (ann, bob) = (hall.nodes[0], hall.nodes[1])
    var caught: [UInt8] = []
    hall.passes = { bytes, from, _ in
      if from == 1, bytes[1] == MessageType.announce.rawValue { caught = bytes }
      return true
    }
    hall.pass(.seconds(40))
    #expect(!caught.isEmpty)
    let eve = hall.connect(to: 0)
    hall.inject(caught.with(7, at: 2), on: eve, to: 0)
    #expect(ann.engine.hasSession(with: bob.id))
    #expect(hall.links(0, 1).count == 1)
    #expect(ann.cuts.isEmpty)
    let before = ann.sent[eve]?.count ?? 0
    try hall.tell("second", to: 1, as: 2, at: 0)
    let said = hall.say("for all", at: 0)
    #expect(said != nil)
    hall.pass(.milliseconds(200))
    #expect(bob.told.map(\.text) == ["first", "second"])
    #expect(bob.heard.map(\.text) == ["for all"])
    #expect(ann.progress[2] == [.sent, .delivered])
    // Eve's link may lead to Bob as well: it gets one copy of each, and the private message is encrypted.
    let copies = ann.sent[eve]?.dropFirst(before).map { MessageType(rawValue: $0[1]) }
    #expect(copies == [.noiseEncrypted, .message])
  }

  @Test("A replayed announce does not cut the link that this node made to the peer")
  func replayedAgainstLink() throws {
    for seed in UInt64(1)...8 {
      var hall = MeshHall(seed: seed)
      hall.add(["ann", "bob"])
      let larger = hall.nodes[0].id < hall.nodes[1].id ? 1 : 0
      let link = hall.connect(larger, 1 - larger)
      var caught: [UInt8] = []
      hall.passes = { bytes, from, _ in
        if from != larger, bytes[1] == MessageType.announce.rawValue { caught = bytes }
        return true
      }
      hall.pass(.seconds(20))
      let eve = hall.connect(to: larger)
      hall.inject(caught.with(7, at: 2), on: eve, to: larger)
      hall.pass(.seconds(1))
      #expect(hall.links(0, 1) == [link])
    }
  }

  @Test(
    "An announce captured on another link does not take over the peer's link or block its messages")
  func borrowedAnnounce() throws {
    for seed in UInt64(1)...8 {
      var hall = MeshHall(seed: seed)
      hall.add(["ann", "bob"])
      let link = seed.isMultiple(of: 2) ? hall.connect(0, 1) : hall.connect(1, 0)
      hall.pass(.seconds(20))
      let (toBob, toAnn) = (hall.connect(to: 1), hall.connect(to: 0))
      hall.pass(.seconds(1))
      let said = hall.nodes[1].sent[toBob] ?? []
      let caught = try #require(said.last { $0[1] == MessageType.announce.rawValue })
      hall.inject(caught, on: toAnn, to: 0)
      hall.pass(.seconds(1))
      #expect(hall.nodes[0].engine.neighbourhood.links[toAnn]?.peer == hall.nodes[1].id, "it passes for one of Bob's")
      #expect(hall.links(0, 1) == [link])
      try hall.tell("for bob", to: 1, as: 1, at: 0)
      _ = hall.say("for all", at: 0)
      hall.pass(.seconds(5))
      #expect(hall.nodes[0].progress[1] == [.sent, .delivered] && hall.nodes[1].heard.map(\.text) == ["for all"])
    }
  }

  @Test("A replayed old announce does not make the node distrust its clock")
  func replayedAgainstClock() {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.handle(.clock(isTrusted: false), at: 0)
    let (cem, dea) = (Stranger(1), Stranger(2))
    let old = cem.announce(at: hall.time)
    hall.pass(.seconds(200))
    let link = hall.connect(stranger: cem, to: 0)
    hall.connect(stranger: dea, to: 0)
    #expect(hall.nodes[0].engine.state == .connected)
    hall.inject(old, on: link, to: 0)
    #expect(hall.nodes[0].engine.state == .connected)
  }

  @Test("The time that neighbours confirmed is used until the clock is set, even after the neighbours left")
  func clockSet() {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.handle(.clock(isTrusted: false), at: 0)
    for number in UInt64(1)...2 {
      let link = hall.connect(stranger: Stranger(number), to: 0)
      hall.handle(.linkClosed(link), at: 0)
    }
    #expect(hall.nodes[0].engine.state == .alone)
    hall.handle(.clockSet, at: 0)
    #expect(hall.nodes[0].engine.state == .waitingForClock)
    for number in UInt64(3)...4 { hall.connect(stranger: Stranger(number), to: 0) }
    #expect(hall.nodes[0].engine.state == .connected)
  }

  @Test("300 strangers without proven keys leave no peers or pinned keys, and at most 32 messages and 40 handshakes")
  func noStateBeforeProof() {
    var hall = MeshHall()
    hall.add(["ann"])
    let link = hall.connect(to: 0)
    for number in UInt64(1)...300 {
      let eve = Stranger(number)
      hall.inject(eve.announce(at: hall.time).flipped(at: -1), on: link, to: 0)
      hall.inject(eve.line("hello", at: hall.time), on: link, to: 0)
      let ephemeral = Stranger(number + 1000).noiseKey
      hall.inject(
        eve.packet(.noiseHandshake, ephemeral.publicKey.bytes, at: hall.time, to: hall.nodes[0].id, isSigned: false),
        on: link, to: 0)
      hall.inject(
        eve.packet(
          .noiseEncrypted, [UInt8](repeating: 1, count: 40), at: hall.time, to: hall.nodes[0].id, isSigned: false),
        on: link, to: 0)
      hall.pass(.milliseconds(20))
    }
    let engine = hall.nodes[0].engine
    #expect(engine.neighbourhood.peers.count == 0 && engine.neighbourhood.peers.pinCount == 0)
    #expect(engine.gate.unknown.count <= 32)
    // 30 first messages are answered, and 10 handshakes are begun because of messages that no key opens.
    #expect(engine.messages.sessions.halfOpen <= 40)
    #expect(engine.messages.sessions.peers.isEmpty)
    #expect(engine.gossip.archive.announceCount <= 1 && engine.gossip.archive.messageCount == 0)
  }

  @Test("Of a flooding neighbour at most 100 packets are relayed, and it gets 8 sync answers of 49 KiB")
  func shares() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    let cem = Stranger(1)
    let link = hall.connect(stranger: cem, to: 0)
    var passedOn = 0
    hall.passes = { bytes, _, to in
      if to == 1, bytes[1] == MessageType.boardPost.rawValue { passedOn += 1 }
      return true
    }
    for number in 0..<2000 {
      hall.inject(cem.packet(.boardPost, Array("\(number)".utf8), at: hall.time, isSigned: false), on: link, to: 0)
    }
    hall.pass(.milliseconds(500))
    #expect(passedOn == 100)
    for number in 0..<600 { _ = hall.say("line \(number) " + String(repeating: "x", count: number % 70), at: 1) }
    hall.pass(.seconds(5))
    let before = hall.nodes[0].sent[link]?.count ?? 0
    let request = try SyncRequest(filter: SyncFilter([]))
    for number in 0..<100 {
      hall.inject(
        cem.packet(.requestSync, request.bytes, at: hall.time + UInt64(number), timeToLive: 0), on: link, to: 0)
    }
    let answers = hall.nodes[0].sent[link]?.dropFirst(before) ?? []
    #expect(answers.count <= 8 * 192)
    #expect(answers.map(\.count).reduce(0, +) <= 8 * (49 << 10))
    #expect(answers.count > 100)
  }

  @Test("A mesh handshake with a key of low order is refused", arguments: [0, 1])
  func lowOrder(point: UInt8) {
    var hall = MeshHall()
    hall.add(["ann"])
    let cem = Stranger(1)
    let link = hall.connect(stranger: cem, to: 0)
    let before = hall.nodes[0].sent[link]?.count
    let key = [point] + [UInt8](repeating: 0, count: 31)
    hall.inject(
      cem.packet(.noiseHandshake, key, at: hall.time, to: hall.nodes[0].id, isSigned: false), on: link, to: 0)
    #expect(hall.nodes[0].engine.messages.sessions.counters[.weakKey] == 1)
    #expect(hall.nodes[0].engine.messages.sessions.halfOpen == 0)
    #expect(hall.nodes[0].sent[link]?.count == before)
  }

  @Test("Fragments are grouped by sender, ID and type, and one sender's sets do not evict another's")
  func fragmentKeys() {
    var hall = MeshHall()
    hall.add(["ann"])
    let (cem, eve) = (Stranger(1), Stranger(2))
    let link = hall.connect(stranger: cem, to: 0)
    let line = cem.line("hello", at: hall.time)
    let (head, tail) = (Array(line.prefix(40)), Array(line.dropFirst(40)))
    hall.inject(cem.fragment(1, 0, of: 2, head, at: hall.time), on: link, to: 0)
    hall.inject(eve.fragment(1, 1, of: 2, tail, at: hall.time), on: link, to: 0)
    hall.inject(cem.fragment(1, 1, of: 2, tail, at: hall.time, type: .leave), on: link, to: 0)
    hall.inject(cem.fragment(2, 1, of: 2, tail, at: hall.time), on: link, to: 0)
    #expect(hall.nodes[0].heard.isEmpty)
    #expect(hall.nodes[0].engine.assembler.count == 4)
    for id in UInt64(10)..<30 { hall.inject(eve.fragment(id, 0, of: 2, [1], at: hall.time), on: link, to: 0) }
    #expect(hall.nodes[0].engine.assembler.count == 3 + 8)
    hall.inject(cem.fragment(1, 1, of: 2, tail, at: hall.time), on: link, to: 0)
    #expect(hall.nodes[0].heard.map(\.text) == ["hello"])
  }

  @Test("A node signs everything with its announced key, and proves this key in its sessions")
  func oneIdentity() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    var signed: [[UInt8]] = []
    hall.passes = { bytes, from, _ in
      if from == 0, bytes[11] & 0x02 != 0 { signed.append(bytes) }
      return true
    }
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    try hall.tell("first", to: 1, at: 0)
    let said = hall.say("hello", at: 0)
    #expect(said != nil)
    // The peer stays long enough to become an acquaintance.
    hall.pass(PeerTable.acquaintance + .seconds(20))
    hall.handle(.stop, at: 0)
    hall.pass(.seconds(1))
    let key = hall.nodes[0].engine.identity.signingKey.publicKey
    #expect(Set(signed.map { $0[1] }).isSuperset(of: [1, 2, 3, 0x21]))
    for bytes in signed {
      let view = try PacketView(bytes)
      #expect(SignatureCheck(view, decoded: try Packet(view), key: key).isValid)
    }
    #expect(hall.nodes[1].engine.neighbourhood.peers.pin(of: hall.nodes[0].id) == key)
    let pins = hall.nodes[1].kept.filter { if case .pin = $0 { true } else { false } }
    #expect(pins.count == 1)
  }

  @Test(
    "An acquaintance's pinned key is stored once, a favourite's at once, and a stranger's never"
  )
  func keptPins() {
    var hall = MeshHall()
    hall.add(["ann"])
    let (friend, passer, others) = (Stranger(1), Stranger(2), (UInt64(3)...72).map { Stranger($0) })
    let ann = hall.nodes[0]
    func pins() -> [PeerID] { ann.kept.compactMap { if case .pin(let peer, _, _) = $0 { peer } else { nil } } }
    hall.connect(stranger: friend, to: 0)
    hall.handle(.favourite(friend.id, true), at: 0)
    #expect(pins() == [friend.id])
    // The absent peer is away by the time of its relayed announce, too.
    let absent = Stranger(99)
    let link = hall.connect(stranger: passer, to: 0)
    hall.inject(absent.announce(at: hall.time, timeToLive: 6), on: link, to: 0)
    hall.handle(.verified(absent.id, true), at: 0)
    #expect(pins() == [friend.id, absent.id])
    ann.engine.neighbourhood.leave(absent.id, at: hall.now, time: hall.time)
    hall.handle(.favourite(absent.id, true), at: 0)
    #expect(pins() == [friend.id, absent.id, absent.id])
    ann.kept = ann.kept.filter { if case .pin(absent.id, _, _) = $0 { false } else { true } }
    hall.pass(.seconds(59))
    hall.inject(passer.announce(at: hall.time), on: link, to: 0)
    #expect(pins() == [friend.id])
    hall.pass(.seconds(1))
    for _ in 0..<3 {
      hall.inject(passer.announce(at: hall.time), on: link, to: 0)
      hall.pass(.seconds(1))
    }
    #expect(pins() == [friend.id, passer.id])

    // The limit is 60 in a minute. The others are stored when they are received again.
    for other in others {
      hall.inject(other.announce(at: hall.time, timeToLive: 6), on: link, to: 0)
      hall.pass(.milliseconds(200))
    }
    hall.pass(PeerTable.acquaintance)
    for count in [62, 72, 72] {
      for other in others { hall.inject(other.announce(at: hall.time, timeToLive: 6), on: link, to: 0) }
      #expect(pins().count == count)
      hall.pass(.seconds(15))
    }
    #expect(Set(pins()).count == 72)
  }

  @Test("Favourite, verified and blocked marks belong to a key, not to another peer with its nickname")
  func byKey() {
    var hall = MeshHall()
    hall.add(["ann"])
    let (cem, other) = (Stranger(1, nickname: "cem"), Stranger(2, nickname: "cem"))
    let link = hall.connect(stranger: cem, to: 0)
    hall.handle(.favourite(cem.id, true), at: 0)
    hall.handle(.verified(cem.id, true), at: 0)
    hall.handle(.block(cem.id, true), at: 0)
    let second = hall.connect(stranger: other, to: 0)
    let engine = hall.nodes[0].engine
    #expect(engine.peers.map(\.nickname) == ["cem", "cem"])
    #expect(engine.favourites == [cem.id] && engine.verified == [cem.id] && engine.blocked == [cem.id])
    hall.inject(other.line("hello", at: hall.time), on: second, to: 0)
    hall.inject(cem.line("hello", at: hall.time), on: link, to: 0)
    #expect(hall.nodes[0].heard.map(\.sender) == [other.id])
  }

  @Test("A mesh session is renewed after an hour, and no message is lost")
  func rekey() throws {
    var hall = try pair()
    let before = hall.nodes[0].engine.messages.sessions.counters.established
    hall.pass(.seconds(3900))
    #expect(hall.nodes[0].engine.messages.sessions.counters.established == before + 1)
    #expect(hall.nodes.map(\.engine.messages.sessions.counters.rekeys).reduce(0, +) == 1)
    try hall.tell("second", to: 1, as: 2, at: 0)
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].told.map(\.text) == ["first", "second"])
    #expect(hall.nodes[0].progress[2] == [.sent, .delivered])
  }

  @Test("A blocked peer gets no answer, and its messages are neither shown nor stored")
  func blocked() throws {
    var hall = try pair()
    let (ann, bob) = (hall.nodes[0], hall.nodes[1])
    let said = hall.say("before", at: 0)
    #expect(said != nil)
    hall.pass(.seconds(1))
    #expect(bob.engine.gossip.archive.messageCount == 1)
    hall.handle(.block(ann.id, true), at: 1)
    #expect(bob.engine.gossip.archive.messageCount == 0)
    let (heard, told) = (bob.heard.count, bob.told.count)
    var noise = 0
    hall.passes = { bytes, from, _ in
      if from == 1, [0x10, 0x11].contains(bytes[1]) { noise += 1 }
      return true
    }
    let later = hall.say("after", at: 0)
    #expect(later != nil)
    try hall.tell("psst", to: 1, as: 2, at: 0)
    hall.handle(.favourite(bob.id, true), at: 0)
    if let message = bob.told.first { hall.handle(.read(message.id, from: ann.id), at: 1) }
    hall.pass(.seconds(30))
    #expect(bob.heard.count == heard && bob.told.count == told)
    #expect(bob.favourited.isEmpty)
    #expect(bob.engine.gossip.archive.messageCount == 0)
    #expect(noise == 0)
    #expect(ann.progress[2]?.contains(.delivered) != true)
    // A peer that is unblocked receives the messages that wait for it.
    hall.handle(.block(ann.id, false), at: 1)
    hall.pass(.seconds(60))
    #expect(bob.told.map(\.text) == ["first", "psst"])
  }
}
