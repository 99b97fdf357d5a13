import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Invalid and too many courier envelopes")
struct CourierLimitTests {
  /// Ann, a courier; Cem, the recipient of the envelopes; and the packets that the test sends to Ann.
  private struct Stage {
    var stage = LimitStage()
    let cem = Stranger(900)
    private var number: UInt64 = 0

    var ann: MeshEngine.Identity { stage.ann.engine.identity }
    var counters: CourierCounters { stage.ann.engine.counters.courier }
    var carried: Int { stage.ann.engine.carried }
    var time: UInt64 { stage.time }

    /// A neighbour that has announced itself over a link of its own.
    mutating func neighbour(_ number: UInt64) -> (who: Stranger, link: LinkID) {
      let who = Stranger(number)
      return (who, stage.hall.connect(stranger: who, to: 0))
    }

    /// An envelope from a stranger with unique content.
    mutating func envelope(
      for key: X25519.PublicKey? = nil, from who: Stranger? = nil, life: Int64 = 3_600_000, copies: UInt8 = 4,
      prekey: UInt32? = nil, text: String = "hello"
    ) throws -> CourierEnvelope {
      number += 1
      var random = SeededRandom(seed: 77_000 + number)
      let message = try PrivateMessage(id: MessageID("m\(number)"), text: text)
      let sealed = try CourierEnvelope(
        sealing: .privateMessage(message), for: key ?? cem.noiseKey.publicKey, from: (who ?? Stranger(1)).noiseKey,
        at: time, expiry: time + 1, randomFrom: &random)
      return try CourierEnvelope(
        tag: sealed.tag, expiry: UInt64(Int64(time) + life), ciphertext: sealed.ciphertext, copies: copies,
        prekey: prekey)
    }

    /// The packets with envelopes that ann has sent over a link.
    func envelopes(on link: LinkID) -> [Packet] {
      (stage.hall.nodes[0].sent[link] ?? []).compactMap { try? Packet(decoding: $0) }.filter { $0.type == .courier }
    }

    mutating func give(
      _ envelope: CourierEnvelope, from who: Stranger, on link: LinkID, timeToLive: UInt8 = Limits.timeToLive,
      isSigned: Bool = true
    ) {
      number += 1
      stage.hall.inject(
        who.packet(
          .courier, envelope.bytes, at: time + number % 1000, to: ann.id, timeToLive: timeToLive, isSigned: isSigned),
        on: link, to: 0)
    }
  }

  @Test("A neighbour's envelope is stored unchanged with its prekey, and handed over to its recipient")
  func carried() throws {
    var stage = Stage()
    let (bob, link) = stage.neighbour(1)
    let envelope = try stage.envelope(prekey: 0x0102_0304)
    stage.give(envelope, from: bob, on: link)
    #expect(stage.carried == 1 && stage.counters.taken == 1)
    let own = stage.stage.hall.connect(stranger: stage.cem, to: 0)
    stage.stage.hall.pass(.seconds(1))
    let packets = stage.envelopes(on: own)
    let handed = try #require(packets.first)
    #expect(packets.count == 1 && handed.recipient == stage.cem.id && handed.signature != nil)
    let read = try CourierEnvelope(reading: handed.payload)
    #expect(read == envelope.with(copies: 1))
  }

  @Test("A courier envelope that has expired, or expires in more than 25 h, is refused")
  func life() throws {
    let day: Int64 = 25 * 3600 * 1000
    for (life, taken) in [(0, 0), (-1, 0), (1, 1), (day, 1), (day + 1, 0)] as [(Int64, Int)] {
      var stage = Stage()
      let (bob, link) = stage.neighbour(1)
      stage.give(try stage.envelope(life: life), from: bob, on: link)
      #expect(stage.carried == taken, "\(life)")
      #expect(stage.counters.tooLong == (life > day ? 1 : 0) && stage.counters.tooLate == (life <= 0 ? 1 : 0))
      // Ann applies the limits also to envelopes that are addressed to herself.
      stage.give(try stage.envelope(for: stage.ann.noiseKey.publicKey, life: life), from: bob, on: link)
      #expect(stage.stage.ann.told.count == taken, "\(life)")
    }
  }

  @Test("A copy count above 8 in a received courier envelope is reduced to 8 and counted")
  func copies() throws {
    var stage = Stage()
    let (bob, link) = stage.neighbour(1)
    stage.give(try stage.envelope(copies: 200), from: bob, on: link)
    #expect(stage.counters.tooManyCopies == 1)
    let copies = stage.stage.ann.engine.courier.desk.bag.envelopes.values.map(\.envelope.copies)
    #expect(copies == [8])
  }

  @Test("A courier envelope that was relayed, or is not signed, is not stored")
  func notOfNeighbours() throws {
    var stage = Stage()
    let (bob, link) = stage.neighbour(1)
    let (_, other) = stage.neighbour(2)
    let unknown = Stranger(3)
    stage.give(try stage.envelope(), from: bob, on: link, timeToLive: 6)
    stage.give(try stage.envelope(), from: bob, on: other)
    stage.give(try stage.envelope(), from: unknown, on: link)
    stage.give(try stage.envelope(), from: bob, on: link, isSigned: false)
    let forger = Stranger(bob, signingWith: 50)
    stage.give(try stage.envelope(), from: forger, on: link)
    #expect(stage.carried == 0 && stage.counters.notOfNeighbours == 5)
    // A forged packet does not make the authentic one a duplicate.
    let envelope = try stage.envelope()
    let packet = bob.packet(.courier, envelope.bytes, at: stage.time, to: stage.ann.id)
    stage.stage.hall.inject(packet.flipped(at: -1), on: link, to: 0)
    stage.stage.hall.inject(packet, on: link, to: 0)
    #expect(stage.carried == 1)
  }

  @Test("A malformed courier envelope is counted and not relayed")
  func malformed() throws {
    var stage = Stage()
    let (bob, link) = stage.neighbour(1)
    let before = stage.stage.ann.engine.counters.relayed
    for payload in [[], [1, 0, 16], [UInt8](repeating: 0xFF, count: 200)] as [[UInt8]] {
      stage.stage.hall.inject(
        bob.packet(.courier, payload, at: stage.time + UInt64(payload.count), to: stage.ann.id), on: link, to: 0)
    }
    #expect(stage.counters.malformed == 3 && stage.stage.ann.engine.counters.relayed == before)
  }

  @Test("An envelope for this node that cannot be opened, or is for a prekey, is dropped and counted")
  func notOpened() throws {
    var stage = Stage()
    let (bob, link) = stage.neighbour(1)
    let own = stage.ann.noiseKey.publicKey
    let other = try stage.envelope()
    let wrong = try CourierEnvelope(
      tag: CourierTag(for: own, day: CourierTag.day(of: stage.time)), expiry: other.expiry, ciphertext: other.ciphertext
    )
    stage.give(wrong, from: bob, on: link)
    stage.give(try stage.envelope(for: own, prekey: 1), from: bob, on: link)
    #expect(stage.counters.notOpened == 1 && stage.counters.forPrekeys == 1 && stage.carried == 0)
    #expect(stage.stage.ann.told.isEmpty)
  }

  @Test("A node opens courier envelopes with its tags of yesterday, today and tomorrow, and no others")
  func days() throws {
    for (offset, isOwn) in [(-2, false), (-1, true), (0, true), (1, true), (2, false)] as [(Int, Bool)] {
      var stage = Stage()
      let (bob, link) = stage.neighbour(1)
      let own = stage.ann.noiseKey.publicKey
      let envelope = try stage.envelope(for: own, from: bob)
      let day = UInt32(Int(CourierTag.day(of: stage.time)) + offset)
      stage.give(
        try CourierEnvelope(
          tag: CourierTag(for: own, day: day), expiry: envelope.expiry, ciphertext: envelope.ciphertext),
        from: bob, on: link)
      #expect(stage.stage.ann.told.count == (isOwn ? 1 : 0) && stage.carried == (isOwn ? 0 : 1), "\(offset)")
    }
  }

  @Test(
    "A courier may deliver messages of any author who is not blocked, and repeated ones are ignored")
  func replays() throws {
    var stage = Stage()
    let (bob, link) = stage.neighbour(1)
    let (author, own) = (Stranger(5), stage.ann.noiseKey.publicKey)
    let envelope = try stage.envelope(for: own, from: author)
    for _ in 0..<5 { stage.give(envelope, from: bob, on: link) }
    #expect(stage.stage.ann.told.map(\.text) == ["hello"] && stage.stage.ann.toldFrom == [author.id])
    stage.stage.hall.handle(.block(author.id, true), at: 0)
    stage.give(try stage.envelope(for: own, from: author), from: bob, on: link)
    #expect(stage.stage.ann.told.count == 1)
    // An envelope that is stored already is not stored twice.
    let other = try stage.envelope()
    for _ in 0..<5 { stage.give(other, from: bob, on: link) }
    #expect(stage.carried == 1 && stage.counters.repeated == 4)
    stage.stage.hall.handle(.block(bob.id, true), at: 0)
    stage.give(try stage.envelope(), from: bob, on: link)
    #expect(stage.carried == 1)
  }

  @Test("Envelopes of 40 devices fill the 20 slots for strangers, and leave those for favourites free")
  func flood() throws {
    var stage = Stage()
    let (friend, friendly) = stage.neighbour(4000)
    stage.stage.hall.handle(.favourite(friend.id, true), at: 0)
    stage.give(try stage.envelope(), from: friend, on: friendly)
    for number in 0..<40 {
      let (who, link) = stage.neighbour(UInt64(2000 + number))
      for _ in 0..<5 { stage.give(try stage.envelope(), from: who, on: link) }
      stage.stage.hall.pass(.milliseconds(200))
    }
    #expect(stage.carried == 21)
    // Each of the first ten devices stores two envelopes. Nine more devices evict one envelope each of two others,
    // the next one evicts the last second envelope, and then each newcomer evicts one of the twenty: 20 + 19 + 20 are
    // taken.
    #expect(stage.counters.taken == 1 + 59 && stage.counters.droppedForOthers == 39)
    #expect(stage.counters.tooManyOfDepositor + stage.counters.tooManyOfStrangers == 200 - 59)
    for _ in 0..<4 { stage.give(try stage.envelope(), from: friend, on: friendly) }
    #expect(stage.carried == 25)
  }

  @Test("While the clock is not trusted, 50 neighbours that come and go leave at most one newcomer record")
  func passersBy() {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.handle(.clock(isTrusted: false), at: 0)
    for number in 1...50 as ClosedRange<UInt64> {
      let who = Stranger(number)
      let link = hall.connect(to: 0)
      // An announce that was relayed first shows nothing about the neighbour's clock.
      for hops in [1, 0] as [UInt8] {
        hall.inject(who.announce(at: hall.time, timeToLive: Limits.timeToLive - hops), on: link, to: 0)
      }
      #expect(hall.nodes[0].engine.neighbours == [who.id])
      hall.handle(.linkClosed(link), at: 0)
      hall.pass(.milliseconds(200))
    }
    #expect(!hall.nodes[0].engine.canSend)
    #expect(hall.nodes[0].engine.courier.desk.newcomers.count <= 1)
  }

  @Test("Courier envelopes above the rate limit of a link are not decrypted")
  func rate() throws {
    var stage = Stage()
    let (bob, link) = stage.neighbour(1)
    let own = stage.ann.noiseKey.publicKey
    for _ in 0..<100 { stage.give(try stage.envelope(for: own, from: bob), from: bob, on: link) }
    #expect(stage.stage.ann.engine.counters.tooManyUnverified >= 50)
    #expect(stage.counters.opened <= 50)
  }

  @Test("Of 100 courier envelopes at most 32 are handed over at once, and the others after the next announces")
  func batches() throws {
    var stage = Stage()
    stage.stage.hall.nodes[0].engine.courier = Courier(limit: 1000)
    for number in 0..<100 {
      let envelope = try stage.envelope()
      let carried = CarriedEnvelope(
        envelope: envelope, depositor: PeerID(rawValue: UInt64(number)), isOfFavourite: false, storedAt: UInt64(number))
      stage.stage.hall.nodes[0].engine.restore(carried)
    }
    let link = stage.stage.hall.connect(stranger: stage.cem, to: 0)
    stage.stage.hall.pass(.milliseconds(100))
    #expect(stage.counters.handedOver == 32)
    for second in 1...3 {
      stage.stage.hall.pass(.seconds(1))
      stage.stage.hall.inject(stage.cem.announce(at: stage.time + UInt64(second)), on: link, to: 0)
    }
    #expect(stage.counters.handedOver == 100)
  }

  @Test("A courier envelope is handed to its recipient three times a minute apart, then hourly, and stays stored")
  func handedOverThrice() throws {
    var stage = Stage()
    let carried = CarriedEnvelope(
      envelope: try stage.envelope(life: 20 * 3_600_000), depositor: PeerID(rawValue: 1), isOfFavourite: false,
      storedAt: stage.time)
    stage.stage.hall.nodes[0].engine.restore(carried)
    let link = stage.stage.hall.connect(stranger: stage.cem, to: 0)
    var handed: [Int] = []
    for _ in 0..<10 {
      handed.append(stage.envelopes(on: link).count)
      stage.stage.hall.pass(.seconds(31))
      stage.stage.hall.inject(stage.cem.announce(at: stage.time), on: link, to: 0)
    }
    #expect(handed == [1, 1, 2, 2, 3, 3, 3, 3, 3, 3])
    #expect(stage.carried == 0 && stage.counters.handedOver == 1)
    for _ in 0..<120 {
      stage.stage.hall.pass(.seconds(30))
      stage.stage.hall.inject(stage.cem.announce(at: stage.time), on: link, to: 0)
    }
    #expect(stage.envelopes(on: link).count == 4)
  }

  @Test("A blocked peer gets neither envelopes to carry nor envelopes addressed to it")
  func blocked() throws {
    var stage = Stage()
    for isOwn in [true, false] {
      stage.stage.hall.nodes[0].engine.restore(
        CarriedEnvelope(
          envelope: try stage.envelope(for: isOwn ? nil : Stranger(901).noiseKey.publicKey),
          depositor: PeerID(rawValue: 1), isOfFavourite: false, storedAt: stage.time))
    }
    stage.stage.hall.handle(.block(stage.cem.id, true), at: 0)
    let link = stage.stage.hall.connect(to: 0)
    stage.stage.hall.inject(stage.cem.announce(at: stage.time, capabilities: [.prekeys]), on: link, to: 0)
    #expect(stage.envelopes(on: link).isEmpty)
    let far = stage.stage.bob.id
    for wire in stage.stage.hall.links(0, 1) { stage.stage.hall.disconnect(wire) }
    stage.stage.hall.pass(.seconds(400))
    try stage.stage.hall.tell("by courier", to: far, as: 1, at: 0)
    let again = stage.stage.hall.connect(to: 0)
    #expect(stage.stage.ann.engine.peer(far) == nil)
    for isBlocked in [true, false] {
      stage.stage.hall.handle(.block(stage.cem.id, isBlocked), at: 0)
      stage.stage.hall.inject(stage.cem.announce(at: stage.time, capabilities: [.prekeys]), on: again, to: 0)
      stage.stage.hall.pass(.seconds(5))
      #expect((stage.counters.deposited == 0) == isBlocked)
      #expect(stage.envelopes(on: again).count == (isBlocked ? 0 : 3), "one for it, one to carry, and the node's own")
    }
  }

  @Test("Of five courier envelopes of 16 KiB two are handed over at once")
  func longBatch() throws {
    var stage = Stage()
    let tag = CourierTag(for: stage.cem.noiseKey.publicKey, day: CourierTag.day(of: stage.time))
    for number in 0..<5 {
      let envelope = try CourierEnvelope(
        tag: tag, expiry: stage.time + 3_600_000, ciphertext: FileTests.content(16 << 10, seed: UInt64(number)),
        copies: 1)
      stage.stage.hall.nodes[0].engine.restore(
        CarriedEnvelope(
          envelope: envelope, depositor: PeerID(rawValue: UInt64(number)), isOfFavourite: false, storedAt: stage.time))
    }
    _ = stage.stage.hall.connect(stranger: stage.cem, to: 0)
    #expect(stage.counters.handedOver == 2)
  }

  @Test("An impostor that replays a peer's announce gets its envelopes, and the genuine peer gets them, too")
  func forgedPlace() throws {
    var stage = Stage()
    stage.stage.hall.nodes[0].engine.restore(
      CarriedEnvelope(
        envelope: try stage.envelope(life: 20 * 3_600_000), depositor: PeerID(rawValue: 1), isOfFavourite: false,
        storedAt: stage.time))
    let eve = stage.stage.hall.connect(to: 0)
    for _ in 0..<10 {
      stage.stage.hall.inject(stage.cem.announce(at: stage.time), on: eve, to: 0)
      stage.stage.hall.pass(.seconds(61))
    }
    #expect(stage.envelopes(on: eve).count == 3)
    stage.stage.hall.handle(.linkClosed(eve), at: 0)
    stage.stage.hall.pass(.seconds(2 * 3600))
    let link = stage.stage.hall.connect(stranger: stage.cem, to: 0)
    #expect(stage.envelopes(on: link).count == 1)
  }

  @Test("A favourite among the couriers gets the first envelope, and the other couriers are chosen at random")
  func drawnCouriers() throws {
    var chosen: [Int: Int] = [:]
    for seed in 1...20 as ClosedRange<UInt64> {
      var hall = CourierTests.apart((0..<8).map { "n\($0)" }, seed: seed)
      let places = hall.nodes.indices.dropFirst().dropLast().sorted { hall.nodes[$0].id < hall.nodes[$1].id }
      let friend = try #require(places.last)
      hall.handle(.favourite(hall.nodes[friend].id, true), at: 0)
      for place in places { hall.connect(0, place) }
      hall.pass(.seconds(30))
      try hall.tell("to the last one", to: 7, as: 1, at: 0)
      hall.pass(.seconds(1))
      #expect(hall.nodes[friend].engine.carried == 1)
      for (rank, place) in places.enumerated() where hall.nodes[place].engine.carried == 1 {
        chosen[rank, default: 0] += 1
      }
    }
    #expect(chosen.values.reduce(0, +) == 60 && chosen[5] == 20)
    #expect((0..<5).allSatisfy { chosen[$0] ?? 0 > 0 && chosen[$0] ?? 0 < 20 }, "\(chosen)")
  }

  @Test("An outgoing message is stored with its recipient's Noise key, to seal it for couriers after a restart")
  func keyIsKept() throws {
    var hall = CourierTests.apart(["ann", "bob", "cem"])
    try hall.tell("later", to: 2, as: 1, at: 0)
    let kept = try #require(hall.nodes[0].outgoingLast[1])
    #expect(kept.noiseKey == hall.nodes[2].engine.identity.noiseKey.publicKey)
  }

  @Test("An announce in a sync answer does not reveal where its sender is")
  func toldLater() throws {
    var stage = Stage()
    let carried = CarriedEnvelope(
      envelope: try stage.envelope(copies: 1), depositor: PeerID(rawValue: 1), isOfFavourite: false,
      storedAt: stage.time)
    stage.stage.hall.nodes[0].engine.restore(carried)
    let (_, link) = stage.neighbour(1)
    // Ann requests sync from the neighbour.
    stage.stage.hall.pass(.seconds(2))
    stage.stage.hall.inject(
      stage.cem.announce(at: stage.time, timeToLive: 0, isSyncAnswer: true), on: link, to: 0)
    #expect(stage.stage.ann.engine.peer(stage.cem.id) != nil)
    #expect(stage.envelopes(on: link).isEmpty && stage.counters.sentOverHops == 0)
    stage.stage.hall.inject(stage.cem.announce(at: stage.time + 1, timeToLive: 5), on: link, to: 0)
    #expect(stage.envelopes(on: link).count == 1 && stage.counters.sentOverHops == 1)
  }
}
