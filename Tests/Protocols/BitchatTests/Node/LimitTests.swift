import Common
import Crypto
import Noise
import Testing

@testable import Bitchat

@Suite("Limits and bad input of the mesh")
struct LimitTests {
  /// Ann with a link to the test, and Bob, who would get what she passes on.
  private struct Stage {
    var hall = MeshHall()
    /// Requests of Bob's that were answered.
    private var answeredBefore: UInt64 = 0
    var answered: UInt64 { ann.engine.counters.answeredRequests - answeredBefore }
    let link: LinkID
    var ann: MeshHall.Node { hall.nodes[0] }
    var bob: MeshHall.Node { hall.nodes[1] }
    var time: UInt64 { hall.time }

    init() {
      hall.add(["ann", "bob"])
      hall.connect(0, 1)
      hall.pass(.seconds(2))
      link = hall.connect(to: 0)
      answeredBefore = hall.nodes[0].engine.counters.answeredRequests
    }

    mutating func inject(_ bytes: [UInt8]) { hall.inject(bytes, on: link, to: 0) }

    /// Whether nothing of a sender went on, and nothing is known of it.
    mutating func hasNoTrace(of id: PeerID) -> Bool {
      let before = bob.engine.counters.frames
      hall.pass(.milliseconds(500))
      // What Bob gets meanwhile are announces and requests of Ann's own.
      return ann.engine.peer(id) == nil && ann.engine.table.pin(of: id) == nil && bob.engine.peer(id) == nil
        && bob.engine.counters.frames <= before + 2
    }
  }

  // MARK: Announces

  enum BadAnnounce: CaseIterable {
    case badSignature, noSignature, otherSender, otherSenderSigned, otherPayload, noKey
  }

  @Test(
    "An announce that is not its sender's is dropped, counted, not passed on, and leaves no state",
    arguments: BadAnnounce.allCases)
  func badAnnounce(_ kind: BadAnnounce) throws {
    var stage = Stage()
    let eve = Stranger(1)
    let good = eve.announce(at: stage.time)
    let bytes: [UInt8]
    switch kind {
    case .badSignature: bytes = good.flipped(at: -1)
    case .noSignature: bytes = eve.announce(at: stage.time, isSigned: false)
    case .otherSender: bytes = good.flipped(at: 21)
    case .otherSenderSigned:
      var packet = try Packet(decoding: good)
      packet.sender = Stranger(2).id
      bytes = try packet.signed(with: eve.signingKey).encoded()
    case .otherPayload: bytes = good.flipped(at: 25)
    case .noKey: bytes = eve.packet(.announce, [1, 3, 0x65, 0x76, 0x65], at: stage.time)
    }
    let sender = try PacketView(bytes).sender
    let pinsBefore = stage.ann.engine.table.pinCount
    stage.inject(bytes)
    let counters = stage.ann.engine.counters
    #expect(counters.badSignatures + counters.badAnnounces == 1)
    let hasNoTrace = stage.hasNoTrace(of: sender)
    #expect(hasNoTrace)
    #expect(stage.ann.engine.table.pinCount == pinsBefore)
    #expect(stage.ann.engine.links[stage.link]?.peer == nil)
    // The right one is not taken for a copy of the wrong one.
    stage.inject(good)
    #expect(stage.ann.engine.peer(eve.id)?.nickname == eve.nickname)
  }

  @Test("The first signing key of a peer stays, whoever else says to be that peer")
  func otherSigningKey() {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    let thief = Stranger(cem, signingWith: 2)
    stage.inject(thief.announce(at: stage.time + 1000))
    #expect(stage.ann.engine.counters.otherSigningKeys == 1)
    #expect(stage.ann.engine.table.pin(of: cem.id) == cem.signingKey.publicKey)
    #expect(stage.ann.engine.peer(cem.id)?.signingKey == cem.signingKey.publicKey)
    // A pin outlives the peer.
    stage.hall.handle(.linkClosed(stage.link), at: 0)
    stage.hall.pass(.seconds(400))
    #expect(stage.ann.engine.peer(cem.id) == nil)
    let link = stage.hall.connect(stranger: thief, to: 0)
    #expect(stage.ann.engine.peer(cem.id) == nil)
    #expect(stage.ann.engine.links[link]?.peer == nil)
  }

  @Test("A pin of an earlier run counts as one of this run")
  func restoredPin() {
    var stage = Stage()
    let cem = Stranger(1)
    stage.ann.engine.restorePin(of: cem.id, cem.signingKey.publicKey, at: stage.hall.now)
    stage.inject(Stranger(cem, signingWith: 2).announce(at: stage.time))
    #expect(stage.ann.engine.peer(cem.id) == nil)
    stage.inject(cem.announce(at: stage.time))
    #expect(stage.ann.engine.peer(cem.id) != nil)
  }

  @Test(
    "An announce is off by 120 s at most, and what is off by more is counted apart",
    arguments: [(-120_000, true), (-120_001, false), (120_000, true), (120_001, false)])
  func clock(offset: Int64, isTaken: Bool) {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: UInt64(Int64(stage.time) + offset)))
    #expect((stage.ann.engine.peer(cem.id) != nil) == isTaken)
    #expect(stage.ann.engine.counters.clock == (isTaken ? 0 : 1))
    guard !isTaken else { return }
    let hasNoTrace = stage.hasNoTrace(of: cem.id)
    #expect(hasNoTrace)
  }

  @Test("A line whose signature does not hold is not heard, not kept and not passed on, and the right one still is")
  func forgedLine() throws {
    var stage = Stage()
    let (cem, eve) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    let good = cem.line("hello", at: stage.time)
    var unsigned = try Packet(decoding: good)
    unsigned.signature = nil
    let forged = [
      good.flipped(at: -1), good.flipped(at: 23), try unsigned.encoded(),
      try unsigned.signed(with: eve.signingKey).encoded(),
    ]
    for bytes in forged { stage.inject(bytes) }
    #expect(stage.ann.heard.isEmpty)
    #expect(stage.ann.engine.archive.messageCount == 0)
    stage.hall.pass(.milliseconds(500))
    #expect(stage.bob.heard.isEmpty)
    stage.inject(good)
    stage.hall.pass(.milliseconds(500))
    #expect(stage.ann.heard.map(\.text) == ["hello"])
    #expect(stage.bob.heard.map(\.text) == ["hello"])
  }

  @Test("A peer is gone when it says so itself, after its last announce; then it is not gossiped any more")
  func leave() {
    var stage = Stage()
    let (cem, eve) = (Stranger(1), Stranger(2))
    let old = cem.packet(.leave, [], at: stage.time)
    stage.hall.pass(.milliseconds(10))
    stage.inject(cem.announce(at: stage.time))
    let forged = [
      old, Stranger(cem, signingWith: 3).packet(.leave, [], at: stage.time),
      cem.packet(.leave, [], at: stage.time, isSigned: false), eve.packet(.leave, [], at: stage.time),
    ]
    for bytes in forged { stage.inject(bytes) }
    #expect(stage.ann.engine.peer(cem.id) != nil)
    #expect(stage.ann.gone.isEmpty)
    let announces = stage.ann.engine.archive.announceCount
    stage.inject(cem.packet(.leave, [], at: stage.time))
    #expect(stage.ann.engine.peer(cem.id) == nil)
    #expect(stage.ann.gone == [cem.id])
    #expect(stage.ann.engine.archive.announceCount == announces - 1)
    // Its signing key stays what it was.
    #expect(stage.ann.engine.table.pin(of: cem.id) == cem.signingKey.publicKey)
  }

  @Test("A peer that the user has forgotten may come again with another signing key")
  func forgotten() {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.handle(.forget(cem.id), at: 0)
    #expect(stage.ann.engine.peer(cem.id) == nil)
    stage.inject(Stranger(cem, signingWith: 2).announce(at: stage.time))
    #expect(stage.ann.engine.peer(cem.id)?.signingKey == Stranger(2).signingKey.publicKey)
  }

  @Test(
    "A line is off by 120 s at most",
    arguments: [(-120_000, true), (-120_001, false), (120_000, true), (120_001, false)])
  func clockOfLine(offset: Int64, isTaken: Bool) {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.inject(cem.line("hello", at: UInt64(Int64(stage.time) + offset)))
    #expect(stage.ann.heard.count == (isTaken ? 1 : 0))
    #expect(stage.ann.engine.counters.clock == (isTaken ? 0 : 1))
  }

  @Test("An announce that answers a request is 900 s old at most", arguments: [(900_000, true), (900_001, false)])
  func oldAnnounce(age: UInt64, isTaken: Bool) {
    var stage = Stage()
    let (cem, dea) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    // The neighbour is asked a second after it announced itself.
    stage.hall.pass(.milliseconds(1500))
    stage.inject(dea.announce(at: stage.time - age, timeToLive: 0, isSyncAnswer: true))
    #expect((stage.ann.engine.peer(dea.id) != nil) == isTaken)
    #expect(stage.ann.engine.counters.tooOld == (isTaken ? 0 : 1))
    #expect(stage.ann.engine.counters.clock == 0)
    // What answers is not passed on, and its hops are not known.
    stage.hall.pass(.milliseconds(500))
    #expect(stage.bob.engine.peer(dea.id) == nil)
    #expect(stage.ann.engine.peer(dea.id)?.hops != 1)
  }

  // MARK: How much

  @Test("Of new identities ten come in by one link in a second, and thirty by all; the next second ten more")
  func identities() {
    var stage = Stage()
    stage.hall.pass(.seconds(2))
    let own = stage.ann.engine.peers.count
    func flood(_ link: LinkID, from first: UInt64) {
      for number in 0..<50 {
        stage.hall.inject(Stranger(first + UInt64(number)).announce(at: stage.time), on: link, to: 0)
      }
    }
    flood(stage.link, from: 100)
    #expect(stage.ann.engine.peers.count == own + 10)
    #expect(stage.ann.engine.table.pinCount == own + 10)
    #expect(stage.ann.engine.counters.tooManyIdentities == 40)
    for first: UInt64 in [200, 300, 400, 500] { flood(stage.hall.connect(to: 0), from: first) }
    #expect(stage.ann.engine.peers.count == own + 30)
    stage.hall.pass(.seconds(1))
    flood(stage.link, from: 1000)
    #expect(stage.ann.engine.peers.count == own + 40)
  }

  @Test("Of one link 270 lines and 300 announces of known peers are checked in a second, and 1,000 signatures in all")
  func signatures() {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.seconds(2))
    for number in 0..<400 { stage.inject(cem.line("line \(number)", at: stage.time).flipped(at: -1)) }
    #expect(stage.ann.engine.counters.badSignatures == 270)
    #expect(stage.ann.engine.counters.tooManySignatures == 130)
    // Announces of those who are known have a share of their own.
    for number in 0..<40 { stage.inject(cem.announce(at: stage.time - UInt64(number)).flipped(at: -1)) }
    #expect(stage.ann.engine.counters.badSignatures == 300)
    let links = (0..<4).map { _ in stage.hall.connect(to: 0) }
    for link in links {
      for number in 0..<400 {
        stage.hall.inject(cem.line("\(link) \(number)", at: stage.time).flipped(at: -1), on: link, to: 0)
      }
    }
    #expect(stage.ann.engine.counters.badSignatures == 900)
    for link in links {
      for number in 0..<40 {
        stage.hall.inject(cem.announce(at: stage.time - 100 - UInt64(number)).flipped(at: -1), on: link, to: 0)
      }
    }
    #expect(stage.ann.engine.counters.badSignatures == 1000)
  }

  @Test("A long payload costs as much as the signatures that could be checked meanwhile")
  func longPayloads() {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.seconds(2))
    let text = String(repeating: "a", count: 60_000)
    // Two forms of 60,000 bytes cost as much as sixteen signatures.
    for number in 0..<100 { stage.inject(cem.line(text + "\(number)", at: stage.time).flipped(at: -1)) }
    #expect(stage.ann.engine.counters.badSignatures <= 300 / 16)
    #expect(stage.ann.engine.counters.badSignatures > 0)
    #expect(stage.ann.engine.counters.tooManySignatures > 10)
  }

  @Test(
    "The packets of a link are inflated to two megabytes a second, and those that nobody here reads are not inflated")
  func inflation() throws {
    var stage = Stage()
    let eve = Stranger(1)
    let zeros = [UInt8](repeating: 0x61, count: 60_000)
    for number in 0..<40 { stage.inject(eve.packet(.message, zeros, at: stage.time + UInt64(number), isSigned: false)) }
    #expect(stage.ann.engine.counters.tooMuchInflation == 6)
    for number in 0..<40 {
      stage.inject(eve.packet(.boardPost, zeros, at: stage.time + UInt64(number), isSigned: false))
      stage.inject(
        eve.packet(.noiseEncrypted, zeros, at: stage.time + UInt64(number), to: Stranger(2).id, isSigned: false))
    }
    #expect(stage.ann.engine.counters.tooMuchInflation == 6)
  }

  @Test("Packets that nobody can verify come in by so many a second of each type and link")
  func unverified() {
    var stage = Stage()
    let eve = Stranger(1)
    let types: [(MessageType, UInt64)] = [
      (.fragment, 400), (.noiseEncrypted, 200), (.noiseHandshake, 50), (.boardPost, 100),
    ]
    var refused: UInt64 = 0
    for (type, limit) in types {
      for number in 0..<500 {
        stage.inject(eve.packet(type, Array("\(number)".utf8), at: stage.time, to: Stranger(2).id, isSigned: false))
      }
      refused += 500 - limit
      #expect(stage.ann.engine.counters.tooManyUnverified == refused)
    }
    // Types that are not known have one share together.
    stage.inject(eve.packet(.ping, [1], at: stage.time, isSigned: false))
    #expect(stage.ann.engine.counters.tooManyUnverified == refused + 1)
    // Another link has its own.
    let link = stage.hall.connect(to: 0)
    stage.hall.inject(eve.packet(.ping, [1], at: stage.time, isSigned: false), on: link, to: 0)
    #expect(stage.ann.engine.counters.tooManyUnverified == refused + 1)
  }

  // MARK: Fragments

  @Test("Fragments that are none, of no packet or of more than 10,000, or of a fragment, are dropped and not passed on")
  func noFragments() {
    var stage = Stage()
    let eve = Stranger(1)
    let bad = [
      eve.fragment(1, 0, of: 0, [1], at: stage.time), eve.fragment(2, 0, of: 10_001, [1], at: stage.time),
      eve.fragment(3, 2, of: 2, [1], at: stage.time), eve.fragment(4, 0, of: 2, [1], at: stage.time, type: .fragment),
      eve.packet(.fragment, [1, 2, 3], at: stage.time, isSigned: false),
    ]
    for bytes in bad { stage.inject(bytes) }
    #expect(stage.ann.engine.counters.badFragments == 5)
    #expect(stage.ann.engine.assembler.count == 0)
    #expect(stage.ann.engine.pending.count == 0)
    stage.inject(eve.fragment(5, 9_999, of: 10_000, [1], at: stage.time))
    #expect(stage.ann.engine.assembler.count == 1)
    #expect(stage.ann.engine.pending.count == 1)
  }

  @Test("A fragment that contradicts the others of its packet ends the packet", arguments: [false, true])
  func contradiction(isOfTotal: Bool) {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    let frames = cem.fragments(of: cem.line(text(800), at: stage.time))
    let id = stage.time
    for frame in frames.dropLast() { stage.inject(frame) }
    #expect(stage.ann.engine.assembler.count == 1)
    stage.inject(
      isOfTotal
        ? cem.fragment(id, 0, of: 9, [1], at: stage.time)
        : cem.fragment(id, 0, of: UInt16(frames.count), [1], at: stage.time))
    #expect(stage.ann.engine.counters.badFragments == 1)
    #expect(stage.ann.engine.assembler.count == 0)
    stage.inject(frames[frames.count - 1])
    #expect(stage.ann.heard.isEmpty)
  }

  @Test("A packet in fragments is complete within 30 s, or not at all", arguments: [(29_900, true), (30_001, false)])
  func slowFragments(milliseconds: Int, isHeard: Bool) {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    let frames = cem.fragments(of: cem.line(text(800), at: stage.time))
    for frame in frames.dropLast() { stage.inject(frame) }
    stage.hall.pass(.milliseconds(milliseconds))
    #expect(stage.ann.engine.assembler.count == (isHeard ? 1 : 0))
    stage.inject(frames[frames.count - 1])
    #expect(stage.ann.heard.count == (isHeard ? 1 : 0))
  }

  @Test("A packet of another sender than its fragments is dropped")
  func otherSenderInside() {
    var stage = Stage()
    let (cem, eve) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    let line = cem.line("hello", at: stage.time)
    stage.inject(eve.fragment(1, 0, of: 1, line, at: stage.time))
    #expect(stage.ann.heard.isEmpty)
    stage.inject(cem.fragment(1, 0, of: 1, line, at: stage.time))
    #expect(stage.ann.heard.count == 1)
  }

  @Test("A packet that came in fragments is heard, and passed on in them alone")
  func passedOnOnce() {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.milliseconds(200))
    var types: [UInt8: Int] = [:]
    let bob = 1
    stage.hall.passes = { bytes, _, to in
      if to == bob { types[bytes[1], default: 0] += 1 }
      return true
    }
    let frames = cem.fragments(of: cem.line(text(1500), at: stage.time))
    for frame in frames { stage.inject(frame) }
    stage.hall.pass(.milliseconds(400))
    #expect(types[MessageType.fragment.rawValue] == frames.count)
    #expect(types[MessageType.message.rawValue] == nil)
    #expect(stage.ann.heard.count == 1)
    #expect(stage.bob.heard.count == 1)
  }

  @Test("A line for everybody by name, as Android sends it, is a line for everybody, whole and in fragments")
  func everybody() {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.inject(cem.line("hello", at: stage.time, to: .everybody))
    for frame in cem.fragments(of: cem.line(text(800), at: stage.time + 1, to: .everybody)) { stage.inject(frame) }
    stage.hall.pass(.milliseconds(500))
    #expect(stage.ann.heard.map(\.text) == ["hello", text(800)])
    #expect(Set(stage.bob.heard.map(\.text)) == ["hello", text(800)])
    #expect(stage.ann.engine.archive.messageCount == 2)
  }

  // MARK: Chat of unknown peers

  @Test(
    "Chat of a peer that is not known waits five seconds for its announce", arguments: [(4_900, true), (5_000, false)])
  func waiting(milliseconds: Int, isHeard: Bool) {
    var stage = Stage()
    let cem = Stranger(1)
    stage.inject(cem.line("hello", at: stage.time))
    #expect(stage.ann.heard.isEmpty)
    stage.hall.pass(.milliseconds(milliseconds))
    #expect(stage.bob.engine.unknown.count == 0)
    stage.inject(cem.announce(at: stage.time))
    #expect(stage.ann.heard.count == (isHeard ? 1 : 0))
    #expect(stage.ann.engine.counters.chatOfUnknown == (isHeard ? 0 : 1))
    stage.hall.pass(.milliseconds(500))
    #expect(stage.bob.heard.count == (isHeard ? 1 : 0))
  }

  @Test("A long text of a peer that is not known waits as well, and is passed on in its fragments alone")
  func longWaiting() {
    var stage = Stage()
    let cem = Stranger(1)
    for frame in cem.fragments(of: cem.line(text(1500), at: stage.time)) { stage.inject(frame) }
    stage.hall.pass(.seconds(1))
    var lines = 0
    stage.hall.passes = { bytes, _, _ in
      if bytes[1] == MessageType.message.rawValue { lines += 1 }
      return true
    }
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.milliseconds(500))
    #expect(stage.ann.heard.map(\.text) == [text(1500)])
    #expect(stage.bob.heard.map(\.text) == [text(1500)])
    #expect(lines == 0)
  }

  @Test("Of such chat 32 packets of one link wait, 64 in all, and 256 KiB; a copy takes no room")
  func waitingRoom() {
    var stage = Stage()
    let cem = Stranger(1)
    func flood(_ link: LinkID, _ text: String, _ count: Int = 50) {
      for number in 0..<count { stage.hall.inject(cem.line("\(text) \(number)", at: stage.time), on: link, to: 0) }
    }
    flood(stage.link, "one")
    #expect(stage.ann.engine.unknown.count == 32)
    #expect(stage.ann.engine.counters.chatOfUnknown == 18)
    let (second, third) = (stage.hall.connect(to: 0), stage.hall.connect(to: 0))
    flood(second, "one", 32)
    #expect(stage.ann.engine.unknown.count == 32)
    flood(second, "two")
    flood(third, "three")
    #expect(stage.ann.engine.unknown.count == 64)
    // What came over a link that is gone goes with it.
    stage.hall.handle(.linkClosed(stage.link), at: 0)
    stage.hall.handle(.linkClosed(second), at: 0)
    #expect(stage.ann.engine.unknown.count == 0)
    #expect(stage.ann.engine.unknown.bytes == 0)
    var random = SeededRandom(seed: 1)
    for _ in 0..<20 {
      let noise = random.bytes(30_000).map { 0x20 + $0 % 0x5F }
      stage.hall.inject(cem.packet(.message, noise, at: stage.time), on: third, to: 0)
    }
    #expect(stage.ann.engine.unknown.bytes <= 256 << 10)
    #expect(stage.ann.engine.unknown.count < 20)
  }

  // MARK: Private messages

  @Test("A private text of 64 KiB is taken, and one byte more is not")
  func longest() throws {
    let stage = Stage()
    let bob = stage.bob.id
    let longest = String(repeating: "a", count: 64 << 10)
    _ = try stage.ann.engine.tell(longest, to: bob, as: 1, at: stage.hall.now, time: stage.time)
    #expect(throws: MeshEngine.TellError.tooLong) {
      try stage.ann.engine.tell(longest + "a", to: bob, as: 2, at: stage.hall.now, time: stage.time)
    }
    #expect(stage.ann.engine.outbox.waiting == 1)
  }

  /// Ann and Bob with a session, and what Ann seals for Bob as the test likes.
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

    /// The packet with this plaintext, which Bob has not got yet.
    mutating func sealed(_ plaintext: [UInt8]) throws -> [UInt8] {
      let ann = hall.nodes[0]
      let payload = try ann.engine.sessions.seal(plaintext, for: hall.nodes[1].id, at: hall.now)
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
    "A Noise payload of an unknown type, and a private message with an unknown record, are counted and not acknowledged"
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

  @Test("A Noise packet that comes again, in another packet, tells nothing twice")
  func replay() throws {
    var stage = try Private()
    let plaintext: [UInt8] = [0x01, 0, 1, 0x31, 1, 1, 0x61]
    let payload = try stage.hall.nodes[0].engine.sessions.seal(
      plaintext, for: stage.hall.nodes[1].id, at: stage.hall.now)
    stage.inject(try stage.packet(payload))
    stage.hall.pass(.milliseconds(5))
    stage.inject(try stage.packet(payload))
    #expect(stage.hall.nodes[1].told.count == 2)
    #expect(stage.hall.nodes[1].engine.sessions.counters[.replayed] == 1)
    // The nonce is under the seal: another one opens nothing.
    var jump = payload
    jump.replaceSubrange(0..<4, with: [0xC0, 0, 0, 0])
    stage.hall.pass(.milliseconds(5))
    stage.inject(try stage.packet(jump))
    #expect(stage.hall.nodes[1].engine.sessions.counters[.undecryptable] == 1)
    #expect(stage.hall.nodes[1].engine.hasSession(with: stage.hall.nodes[0].id))
  }

  @Test("Three packets in a row that no key opens start one new handshake, once a minute, and the session goes on")
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
    #expect(stage.hall.nodes[1].engine.sessions.counters.recoveries == 0)
    try garbage(60)
    #expect(stage.hall.nodes[1].engine.sessions.counters.recoveries == 1)
    try stage.hall.tell("second", to: 1, as: 2, at: 0)
    stage.hall.pass(.seconds(20))
    #expect(stage.hall.nodes[1].told.map(\.text) == ["first", "second"])
    stage.hall.pass(.seconds(60))
    try garbage(10)
    #expect(stage.hall.nodes[1].engine.sessions.counters.recoveries == 2)
  }

  @Test("A handshake with a key that is not the sender's makes no session")
  func otherStaticKey() throws {
    var stage = Stage()
    let (cem, eve) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    var random = SeededRandom(seed: 3)
    // Eve begins in the name of Cem.
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
    #expect(stage.ann.engine.sessions.counters[.wrongKey] == 1)
  }

  // MARK: Requests for sync

  enum BadRequest: CaseIterable {
    case timeToLive, unsigned, badSignature, otherSender, otherRecipient, noP, largeP, noM, longFilter, garbage,
      inFragments
  }

  @Test("A request for sync that is not right gets no answer, and is counted", arguments: BadRequest.allCases)
  func badRequest(_ kind: BadRequest) throws {
    var stage = Stage()
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
    // None of it is passed on, and a right one is answered all the same.
    stage.inject(request(payload(p: 32, filter: 0), to: stage.ann.id))
    #expect(stage.answered == 1)
    #expect(stage.bob.engine.counters.refusedRequests == 0)
  }

  @Test("A request with a filter of 1,024 bytes is answered, though it comes in fragments before this node has asked")
  func longRequest() throws {
    var stage = Stage()
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

  @Test("Eight requests of a peer are answered in 30 s; what is forged in its name takes nothing from that")
  func manyRequests() throws {
    var stage = Stage()
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

  private func text(_ count: Int) -> String {
    var random = SeededRandom(seed: UInt64(count))
    return String(decoding: random.bytes(count).map { 0x21 + $0 % 0x5E }, as: UTF8.self)
  }
}
