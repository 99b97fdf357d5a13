import Common
import Crypto
import Noise
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Limits of private mesh messages and of sync")
struct PrivateLimitTests {
  // MARK: Private messages

  @Test("A private text of 64 KiB is accepted; one byte more is refused")
  func longest() throws {
    let stage = LimitStage()
    let bob = stage.bob.id
    let longest = String(repeating: "a", count: 64 << 10)
    _ = try stage.ann.engine.tell(longest, to: bob, as: 1, at: stage.hall.now, time: stage.time)
    #expect(throws: MeshEngine.TellError.tooLong) {
      try stage.ann.engine.tell(longest + "a", to: bob, as: 2, at: stage.hall.now, time: stage.time)
    }
    #expect(stage.ann.engine.messages.outbox.waiting == 1)
  }

  @Test("A first handshake message over a link that replays announces does not end the neighbour's handshake")
  func forgedAside() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let (cem, ann) = (Stranger(1), hall.nodes[0])
    let (own, other) = (hall.connect(stranger: cem, to: 0), hall.connect(to: 0))
    hall.inject(cem.announce(at: hall.time), on: other, to: 0)
    let time = hall.time
    func packet(_ bytes: [UInt8]) -> [UInt8] {
      cem.packet(.noiseHandshake, bytes, at: time, to: ann.id, isSigned: false)
    }
    var random = SeededRandom(seed: 3)
    var handshake = Handshake(.xxInitiator, key: cem.noiseKey)
    hall.inject(packet(try handshake.write(randomFrom: &random)), on: own, to: 0)
    let answer = try #require(ann.sent[own]?.last)
    hall.inject(packet(X25519.PrivateKey(randomFrom: &random).publicKey.bytes), on: other, to: 0)
    _ = try handshake.read(try Packet(decoding: answer).payload)
    hall.inject(packet(try handshake.write(randomFrom: &random)), on: own, to: 0)
    #expect(ann.engine.hasSession(with: cem.id))
  }

  @Test("A favourite's idle session is not evicted by sessions of strangers")
  func dearSession() throws {
    var hall = MeshHall()
    var limits = MeshEngine.sessionLimits
    limits.sessions = 2
    hall.add(["ann"], limits: limits)
    let (ann, link) = (hall.nodes[0], hall.connect(to: 0))
    let strangers = (UInt64(1)...4).map { Stranger($0) }
    hall.handle(.favourite(strangers[0].id, true), at: 0)
    var random = SeededRandom(seed: 3)
    for stranger in strangers {
      let time = hall.time
      func packet(_ bytes: [UInt8]) -> [UInt8] {
        stranger.packet(.noiseHandshake, bytes, at: time, to: ann.id, isSigned: false)
      }
      hall.inject(stranger.announce(at: time, timeToLive: 6), on: link, to: 0)
      var handshake = Handshake(.xxInitiator, key: stranger.noiseKey)
      hall.inject(packet(try handshake.write(randomFrom: &random)), on: link, to: 0)
      let answer = try #require(ann.sent[link]?.last)
      _ = try handshake.read(try Packet(decoding: answer).payload)
      hall.inject(packet(try handshake.write(randomFrom: &random)), on: link, to: 0)
      hall.pass(.seconds(1))
    }
    #expect(Set(ann.engine.messages.sessions.peers) == [strangers[0].id, strangers[3].id])
  }

  @Test(
    "The last signing key that a stranger proves in a session is pinned in memory and not stored"
  )
  func provenKeys() throws {
    var stage = try Private()
    for number in [7, 8, 7] as [UInt64] {
      let key = Stranger(number).signingKey.publicKey
      stage.inject(try stage.sealed(NoisePayload.peerState(PeerState(capabilities: [], signingKey: key)).bytes))
      #expect(stage.hall.nodes[1].engine.neighbourhood.peers.pin(of: stage.hall.nodes[0].id) == key)
    }
    #expect(!stage.hall.nodes[1].kept.contains { if case .pin = $0 { true } else { false } })
  }

  @Test("A repeated favourite notice is reported again only if the service could not store the first")
  func noticeNotTaken() throws {
    var stage = try Private()
    stage.hall.nodes[1].keeps = false
    let id = try MessageID("favour")
    let notice = NoisePayload.privateMessage(
      try PrivateMessage(id: id, text: FavoriteNotice(isFavorite: true).text)
    ).bytes
    for _ in 0..<2 { stage.inject(try stage.sealed(notice)) }
    #expect(stage.hall.nodes[1].favourited == [stage.hall.nodes[0].id])
    stage.hall.handle(.notTaken(id, from: stage.hall.nodes[0].id), at: 1)
    stage.inject(try stage.sealed(notice))
    #expect(stage.hall.nodes[1].favourited.count == 2)
  }

  @Test("A message to an absent peer fails after 24 h, and frees its slot among 100")
  func away() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let peer = Stranger(9).id
    let numbers: ClosedRange<UInt32> = 1...UInt32(Outbox.peerLimit)
    for number in numbers { try hall.tell("are you there?", to: peer, as: number, at: 0) }
    #expect(throws: MeshEngine.TellError.full(.tooManyForPeer)) {
      try hall.tell("one more", to: peer, as: 101, at: 0)
    }
    hall.pass(.seconds(3600))
    #expect(hall.nodes[0].progress.isEmpty)
    hall.leap(.seconds(23 * 3600))
    hall.pass(Outbox.longestPause * 2)
    #expect(numbers.allSatisfy { hall.nodes[0].progress[$0] == [.failed] })
    #expect(numbers.allSatisfy { hall.nodes[0].kept.contains(.settled($0)) })
    try hall.tell("one more", to: peer, as: 101, at: 0)
  }

  @Test("Private texts that wait for their delivery hold at most 16 MiB")
  func manyBytes() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let text = String(repeating: "a", count: Limits.privateTextBytes)
    let fits = Outbox.byteLimit / Limits.privateTextBytes
    for number in 1...UInt32(fits) { try hall.tell(text, to: Stranger(UInt64(number / 90)).id, as: number, at: 0) }
    let left = Outbox.byteLimit - fits * Limits.privateTextBytes
    #expect(hall.nodes[0].engine.messages.outbox.bytes == Outbox.byteLimit - left && fits < Outbox.limit)
    let last = String(repeating: "a", count: left + 1)
    #expect(throws: MeshEngine.TellError.full(.tooMany)) { try hall.tell(last, to: Stranger(9).id, as: 1000, at: 0) }
    if left > 0 { try hall.tell(String(last.dropLast()), to: Stranger(9).id, as: 1000, at: 0) }
  }

  @Test("A text that was delivered, and not read yet, does not count towards the 16 MiB of waiting texts")
  func deliveredText() throws {
    var hall = FileTests.line(2)
    try hall.tell(String(repeating: "long ", count: 100), to: 1, as: 3, at: 0)
    #expect(hall.nodes[0].engine.messages.outbox.bytes == 500)
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].progress[3] == [.sent, .delivered] && hall.nodes[0].engine.messages.outbox.bytes == 0)
    for message in hall.nodes[1].told { hall.handle(.read(message.id, from: hall.nodes[0].id), at: 1) }
    hall.pass(.seconds(5))
    #expect(hall.nodes[0].progress[3] == [.sent, .delivered, .read])
  }

  /// Ann and Bob with a session, and payloads of the test that Ann seals for Bob.
  private struct Private {
    var hall = MeshHall()
    let link: LinkID

    init() throws {
      hall.add(["ann", "bob"])
      link = hall.connect(0, 1)
      hall.pass(.seconds(2))
      try hall.tell("first", to: 1, as: 1, at: 0)
      hall.pass(.seconds(2))
    }

    /// A packet with this plaintext, which Bob has not received yet.
    mutating func sealed(_ plaintext: [UInt8]) throws -> [UInt8] {
      let ann = hall.nodes[0]
      let payload = try ann.engine.messages.encrypt(plaintext, for: hall.nodes[1].id, at: hall.now)
      return try packet(payload)
    }

    func packet(_ payload: [UInt8], _ type: MessageType = .noiseEncrypted) throws -> [UInt8] {
      try Packet(
        type: type, timestamp: hall.time, sender: hall.nodes[0].id, recipient: hall.nodes[1].id, payload: payload
      ).encoded()
    }

    mutating func inject(_ bytes: [UInt8]) { hall.inject(bytes, on: link, to: 1) }
  }

  @Test(
    "An unknown Noise payload and a message with an unknown record are counted and not acknowledged"
  )
  func unknownPayloads() throws {
    var stage = try Private()
    let before = stage.hall.packets
    stage.inject(try stage.sealed([0x42, 1, 2, 3]))
    #expect(stage.hall.nodes[1].engine.counters.unknownPayloads == 1)
    stage.inject(try stage.sealed([0x01, 0, 1, 0x31, 1, 1, 0x61, 9, 1, 1]))
    stage.inject(try stage.sealed([]))
    #expect(stage.hall.nodes[1].engine.counters.unreadable == 2)
    #expect(stage.hall.nodes[1].told.count == 1)
    #expect(stage.hall.packets == before)
    stage.inject(try stage.sealed([0x01, 0, 1, 0x31, 1, 1, 0x61]))
    #expect(stage.hall.nodes[1].told.count == 2)
    #expect(stage.hall.packets == before + 1)
  }

  @Test("A favourite notice is acknowledged when it is stored, and a copy of it is not reported")
  func favourite() throws {
    var stage = try Private()
    let (ann, bob) = (stage.hall.nodes[0].id, stage.hall.nodes[1])
    bob.keeps = false
    let before = stage.hall.packets
    let id = try MessageID("a notice")
    let notice = try PrivateMessage(id: id, text: FavoriteNotice(isFavorite: true).text)
    for _ in 0..<2 { stage.inject(try stage.sealed(NoisePayload.privateMessage(notice).bytes)) }
    #expect(bob.favourited == [ann])
    #expect(stage.hall.packets == before)
    stage.hall.handle(.kept(id, from: ann), at: 1)
    #expect(stage.hall.packets == before + 1)
    // Ann's next notice differs.
    let other = try PrivateMessage(id: try MessageID("another"), text: FavoriteNotice(isFavorite: false).text)
    stage.inject(try stage.sealed(NoisePayload.privateMessage(other).bytes))
    #expect(bob.favourited == [ann, ann])
    #expect(bob.told.count == 1)
  }

  @Test("A replayed Noise message in a new packet is shown only once")
  func replay() throws {
    var stage = try Private()
    let plaintext: [UInt8] = [0x01, 0, 1, 0x31, 1, 1, 0x61]
    let payload = try stage.hall.nodes[0].engine.messages.encrypt(
      plaintext, for: stage.hall.nodes[1].id, at: stage.hall.now)
    stage.inject(try stage.packet(payload))
    stage.hall.pass(.milliseconds(5))
    stage.inject(try stage.packet(payload))
    #expect(stage.hall.nodes[1].told.count == 2)
    #expect(stage.hall.nodes[1].engine.messages.sessions.counters[.replayed] == 1)
    // The nonce is authenticated: another nonce does not open the message.
    var jump = payload
    jump.replaceSubrange(0..<4, with: [0xC0, 0, 0, 0])
    stage.hall.pass(.milliseconds(5))
    stage.inject(try stage.packet(jump))
    #expect(stage.hall.nodes[1].engine.messages.sessions.counters[.undecryptable] == 1)
    #expect(stage.hall.nodes[1].engine.hasSession(with: stage.hall.nodes[0].id))
  }

  @Test("Three undecryptable messages in a row begin one handshake a minute, and the session stays usable")
  func garbage() throws {
    var stage = try Private()
    func garbage(_ count: Int) throws {
      for number in 0..<count {
        let nonce: [UInt8] = [0, 0, 1, UInt8(number)]
        stage.inject(try stage.packet(nonce + [UInt8](repeating: UInt8(number), count: 40)))
        stage.hall.pass(.milliseconds(2))
      }
    }
    try garbage(2)
    #expect(stage.hall.nodes[1].engine.messages.sessions.counters.recoveries == 0)
    try garbage(60)
    #expect(stage.hall.nodes[1].engine.messages.sessions.counters.recoveries == 1)
    try stage.hall.tell("second", to: 1, as: 2, at: 0)
    stage.hall.pass(.seconds(20))
    #expect(stage.hall.nodes[1].told.map(\.text) == ["first", "second"])
    stage.hall.pass(.seconds(60))
    try garbage(10)
    #expect(stage.hall.nodes[1].engine.messages.sessions.counters.recoveries == 2)
  }

  @Test("A handshake with a key that does not match the peer ID establishes no session")
  func otherStaticKey() throws {
    var stage = LimitStage()
    let (cem, eve) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    var random = SeededRandom(seed: 3)
    // Eve begins a handshake in the name of Cem.
    var handshake = Handshake(.xxInitiator, key: eve.noiseKey)
    stage.inject(
      cem.packet(
        .noiseHandshake, try handshake.write(randomFrom: &random), at: stage.time, to: stage.ann.id, isSigned: false))
    let answer = try #require(stage.ann.sent[stage.link]?.last)
    _ = try handshake.read(try Packet(decoding: answer).payload)
    stage.inject(
      cem.packet(
        .noiseHandshake, try handshake.write(randomFrom: &random), at: stage.time, to: stage.ann.id, isSigned: false))
    #expect(!stage.ann.engine.hasSession(with: cem.id))
    #expect(stage.ann.engine.messages.sessions.counters[.wrongKey] == 1)
  }

  // MARK: Requests for sync

  enum BadRequest: CaseIterable {
    case timeToLive, unsigned, badSignature, otherSender, otherRecipient, noP, largeP, noM, longFilter, garbage,
      inFragments
  }

  @Test("An invalid sync request is counted and not answered", arguments: BadRequest.allCases)
  func badRequest(_ kind: BadRequest) throws {
    var stage = LimitStage()
    let (cem, dea) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    stage.inject(dea.announce(at: stage.time, timeToLive: 6))
    let said = stage.hall.say("hello", at: 0)
    #expect(said != nil)
    func record(_ type: UInt8, _ value: [UInt8]) -> [UInt8] {
      [type, UInt8(value.count >> 8), UInt8(value.count & 255)] + value
    }
    func payload(p: UInt8 = 7, m: [UInt8] = [0, 0, 0, 1], filter: Int = 0) -> [UInt8] {
      record(1, [p]) + record(2, m) + record(3, [UInt8](repeating: 0, count: filter))
    }
    func request(
      _ payload: [UInt8], from sender: Stranger = cem, to recipient: PeerID? = nil, timeToLive: UInt8 = 0,
      isSigned: Bool = true
    ) -> [UInt8] {
      sender.packet(.requestSync, payload, at: stage.time, to: recipient, timeToLive: timeToLive, isSigned: isSigned)
    }
    let before = stage.ann.sent[stage.link]?.count
    switch kind {
    case .timeToLive: stage.inject(request(payload(), timeToLive: 1))
    case .unsigned: stage.inject(request(payload(), isSigned: false))
    case .badSignature: stage.inject(request(payload()).flipped(at: -1))
    case .otherSender: stage.inject(request(payload(), from: dea))
    case .otherRecipient: stage.inject(request(payload(), to: dea.id))
    case .noP: stage.inject(request(payload(p: 0)))
    case .largeP: stage.inject(request(payload(p: 33)))
    case .noM: stage.inject(request(payload(m: [0, 0, 0, 0])))
    case .longFilter: stage.inject(request(payload(filter: 1025)))
    case .garbage: stage.inject(request([1, 2, 3]))
    case .inFragments:
      for frame in cem.fragments(of: request(payload(filter: 900), timeToLive: 7)) { stage.inject(frame) }
    }
    #expect(stage.ann.engine.counters.refusedRequests == 1)
    #expect(stage.answered == 0)
    #expect(stage.ann.sent[stage.link]?.count == before)
    // None of the requests is relayed, and a valid one is still answered.
    stage.inject(request(payload(p: 32, filter: 0), to: stage.ann.id))
    #expect(stage.answered == 1)
    #expect(stage.bob.engine.counters.refusedRequests == 0)
  }

  @Test("A fragmented sync request with a filter of 1,024 bytes is answered before this node has sent one")
  func longRequest() throws {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    var random = SeededRandom(seed: 1)
    let filter = try SyncFilter(p: 7, m: 1000, bits: random.bytes(1024))
    let request = cem.packet(.requestSync, try SyncRequest(filter: filter).bytes, at: stage.time, timeToLive: 0)
    let frames = cem.fragments(of: request)
    #expect(frames.count > 1)
    for frame in frames { stage.inject(frame) }
    #expect(stage.answered == 1)
    #expect(stage.ann.engine.counters.unaskedAnswers == 0)
  }

  @Test("A peer gets 8 sync answers in 30 s, and forged requests in its name do not count")
  func manyRequests() throws {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    let payload = try SyncRequest(filter: SyncFilter([])).bytes
    for number in 0..<15 {
      stage.inject(cem.packet(.requestSync, payload, at: stage.time + UInt64(number), timeToLive: 0).flipped(at: -1))
    }
    #expect(stage.answered == 0)
    stage.hall.pass(.seconds(1))
    for number in 0..<12 {
      stage.inject(cem.packet(.requestSync, payload, at: stage.time + UInt64(number), timeToLive: 0))
    }
    #expect(stage.answered == 8)
    #expect(stage.ann.engine.counters.refusedRequests == 15 + 4)
  }

  @Test("When a peer is forgotten, its unacknowledged messages fail, and acknowledged ones stay delivered")
  func forgotten() throws {
    var hall = FileTests.line(2)
    try hall.tell("first", to: 1, as: 3, at: 0)
    hall.pass(.seconds(5))
    hall.disconnect(hall.links(0, 1)[0])
    try hall.tell("second", to: 1, as: 4, at: 0)
    hall.handle(.forget(hall.nodes[1].id), at: 0)
    #expect(hall.nodes[0].progress[3] == [.sent, .delivered])
    #expect(hall.nodes[0].progress[4]?.last == .failed)
    let settled = hall.nodes[0].kept.compactMap { if case .settled(let number) = $0 { number } else { nil } }
    #expect(Set(settled).isSuperset(of: [3, 4]))
  }
}
