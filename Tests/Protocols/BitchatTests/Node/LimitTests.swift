import Common
import Crypto
import Noise
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Limits of the mesh engine and invalid packets")
struct LimitTests {
  // MARK: Announces

  enum BadAnnounce: CaseIterable {
    case badSignature, noSignature, otherSender, otherSenderSigned, otherPayload, noKey
  }

  @Test(
    "A forged announce is dropped and counted, is not relayed, and leaves no state",
    arguments: BadAnnounce.allCases)
  func badAnnounce(_ kind: BadAnnounce) throws {
    var stage = LimitStage()
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
    let pinsBefore = stage.ann.engine.neighbourhood.peers.pinCount
    stage.inject(bytes)
    let counters = stage.ann.engine.counters
    #expect(counters.badSignatures + counters.badAnnounces == 1)
    let hasNoTrace = stage.hasNoTrace(of: sender)
    #expect(hasNoTrace)
    #expect(stage.ann.engine.neighbourhood.peers.pinCount == pinsBefore)
    #expect(stage.ann.engine.neighbourhood.links[stage.link]?.peer == nil)
    // The valid announce is not dropped as a duplicate of the invalid one.
    stage.inject(good)
    #expect(stage.ann.engine.peer(eve.id)?.nickname == eve.nickname)
  }

  @Test("The first signing key of a peer stays pinned when announces with another key arrive")
  func otherSigningKey() {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    let thief = Stranger(cem, signingWith: 2)
    stage.inject(thief.announce(at: stage.time + 1000))
    #expect(stage.ann.engine.counters.otherSigningKeys == 1)
    #expect(stage.ann.engine.neighbourhood.peers.pin(of: cem.id) == cem.signingKey.publicKey)
    #expect(stage.ann.engine.peer(cem.id)?.signingKey == cem.signingKey.publicKey)
    // The pinned key remains after the peer was forgotten.
    stage.hall.handle(.linkClosed(stage.link), at: 0)
    stage.hall.pass(.seconds(400))
    #expect(stage.ann.engine.peer(cem.id) == nil)
    let link = stage.hall.connect(stranger: thief, to: 0)
    #expect(stage.ann.engine.peer(cem.id) == nil)
    #expect(stage.ann.engine.neighbourhood.links[link]?.peer == nil)
  }

  @Test("A signing key pinned in an earlier run is enforced after a restart")
  func restoredPin() {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.ann.engine.restorePin(of: cem.id, cem.signingKey.publicKey, isProven: true, at: stage.hall.now)
    stage.inject(Stranger(cem, signingWith: 2).announce(at: stage.time))
    #expect(stage.ann.engine.peer(cem.id) == nil)
    stage.inject(cem.announce(at: stage.time))
    #expect(stage.ann.engine.peer(cem.id) != nil)
  }

  @Test(
    "An announce whose time is over 120 s off is refused and counted under `clock`",
    arguments: [(-120_000, true), (-120_001, false), (120_000, true), (120_001, false)])
  func clock(offset: Int64, isTaken: Bool) {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: UInt64(Int64(stage.time) + offset)))
    #expect((stage.ann.engine.peer(cem.id) != nil) == isTaken)
    #expect(stage.ann.engine.counters.clock == (isTaken ? 0 : 1))
    guard !isTaken else { return }
    let hasNoTrace = stage.hasNoTrace(of: cem.id)
    #expect(hasNoTrace)
  }

  @Test("A public message with an invalid signature is dropped, and the valid one is still shown")
  func forgedLine() throws {
    var stage = LimitStage()
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
    #expect(stage.ann.engine.gossip.archive.messageCount == 0)
    stage.hall.pass(.milliseconds(500))
    #expect(stage.bob.heard.isEmpty)
    stage.inject(good)
    stage.hall.pass(.milliseconds(500))
    #expect(stage.ann.heard.map(\.text) == ["hello"])
    #expect(stage.bob.heard.map(\.text) == ["hello"])
  }

  @Test("A peer is removed by its own leave if later than its announce, and is then in no sync answer")
  func leave() {
    var stage = LimitStage()
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
    let announces = stage.ann.engine.gossip.archive.announceCount
    stage.inject(cem.packet(.leave, [], at: stage.time))
    #expect(stage.ann.engine.peer(cem.id) == nil)
    #expect(stage.ann.gone == [cem.id])
    #expect(stage.ann.engine.gossip.archive.announceCount == announces - 1)
    // The pinned signing key does not change.
    #expect(stage.ann.engine.neighbourhood.peers.pin(of: cem.id) == cem.signingKey.publicKey)
  }

  @Test("A peer that was forgotten may return with a different signing key")
  func forgotten() {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.handle(.forget(cem.id), at: 0)
    #expect(stage.ann.engine.peer(cem.id) == nil)
    stage.inject(Stranger(cem, signingWith: 2).announce(at: stage.time))
    #expect(stage.ann.engine.peer(cem.id)?.signingKey == Stranger(2).signingKey.publicKey)
  }

  @Test(
    "A public message whose time is over 120 s off is refused and counted under `clock`",
    arguments: [(-120_000, true), (-120_001, false), (120_000, true), (120_001, false)])
  func clockOfLine(offset: Int64, isTaken: Bool) {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.inject(cem.line("hello", at: UInt64(Int64(stage.time) + offset)))
    #expect(stage.ann.heard.count == (isTaken ? 1 : 0))
    #expect(stage.ann.engine.counters.clock == (isTaken ? 0 : 1))
  }

  @Test("An announce in a sync answer may be up to 900 s old", arguments: [(900_000, true), (900_001, false)])
  func oldAnnounce(age: UInt64, isTaken: Bool) {
    var stage = LimitStage()
    let (cem, dea) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    // Ann requests sync from the neighbour a second after its announce.
    stage.hall.pass(.milliseconds(1500))
    stage.inject(dea.announce(at: stage.time - age, timeToLive: 0, isSyncAnswer: true))
    #expect((stage.ann.engine.peer(dea.id) != nil) == isTaken)
    #expect(stage.ann.engine.counters.tooOld == (isTaken ? 0 : 1))
    #expect(stage.ann.engine.counters.clock == 0)
    // A sync answer is not relayed, and does not tell the number of hops.
    stage.hall.pass(.milliseconds(500))
    #expect(stage.bob.engine.peer(dea.id) == nil)
    #expect(stage.ann.engine.peer(dea.id)?.hops != 1)
  }

  // MARK: How much

  @Test("New peer IDs are limited to 10 a second per link and 30 a second in total")
  func identities() {
    var stage = LimitStage()
    stage.hall.pass(.seconds(2))
    let own = stage.ann.engine.peers.count
    func flood(_ link: LinkID, from first: UInt64) {
      for number in 0..<50 {
        stage.hall.inject(Stranger(first + UInt64(number)).announce(at: stage.time), on: link, to: 0)
      }
    }
    flood(stage.link, from: 100)
    #expect(stage.ann.engine.peers.count == own + 10)
    #expect(stage.ann.engine.neighbourhood.peers.pinCount == own + 10)
    #expect(stage.ann.engine.counters.tooManyIdentities == 40)
    for first: UInt64 in [200, 300, 400, 500] { flood(stage.hall.connect(to: 0), from: first) }
    #expect(stage.ann.engine.peers.count == own + 30)
    stage.hall.pass(.seconds(1))
    flood(stage.link, from: 1000)
    #expect(stage.ann.engine.peers.count == own + 40)
  }

  @Test(
    "Signature checks a second: 270 of messages and 300 of known announces per link, 1,000 plus 30 per link in all"
  )
  func signatures() {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.seconds(2))
    for number in 0..<400 { stage.inject(cem.line("line \(number)", at: stage.time).flipped(at: -1)) }
    #expect(stage.ann.engine.counters.badSignatures == 270)
    #expect(stage.ann.engine.counters.tooManySignatures == 130)
    // Announces of known peers have a quota of their own.
    for number in 0..<40 { stage.inject(cem.announce(at: stage.time - UInt64(number)).flipped(at: -1)) }
    #expect(stage.ann.engine.counters.badSignatures == 300)
    let links = (0..<4).map { _ in stage.hall.connect(to: 0) }
    for link in links {
      for number in 0..<400 {
        stage.hall.inject(cem.line("\(link) \(number)", at: stage.time).flipped(at: -1), on: link, to: 0)
      }
    }
    // Each of the last two links has its own quota of 30.
    #expect(stage.ann.engine.counters.badSignatures == 900 + 60)
    for link in links {
      for number in 0..<40 {
        stage.hall.inject(cem.announce(at: stage.time - 100 - UInt64(number)).flipped(at: -1), on: link, to: 0)
      }
    }
    #expect(stage.ann.engine.counters.badSignatures == 1000 + 60)
  }

  @Test("Verifying a payload of 60,000 bytes counts as 16 signature checks")
  func longPayloads() {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.seconds(2))
    let text = String(repeating: "a", count: 60_000)
    // A check of two forms of 60,000 bytes costs as much as 16 signatures.
    for number in 0..<100 { stage.inject(cem.line(text + "\(number)", at: stage.time).flipped(at: -1)) }
    #expect(stage.ann.engine.counters.badSignatures <= 300 / 16)
    #expect(stage.ann.engine.counters.badSignatures > 0)
    #expect(stage.ann.engine.counters.tooManySignatures > 10)
  }

  @Test(
    "Inflation is limited to 2 MB a second per link, and payloads that are not read are not inflated")
  func inflation() throws {
    var stage = LimitStage()
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

  @Test("Packets that cannot be verified are limited per second by type and link")
  func unverified() {
    var stage = LimitStage()
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
    // All unknown types share one quota.
    stage.inject(eve.packet(.groupMessage, [1], at: stage.time, isSigned: false))
    #expect(stage.ann.engine.counters.tooManyUnverified == refused + 1)
    // Each link has its own quota.
    let link = stage.hall.connect(to: 0)
    stage.hall.inject(eve.packet(.groupMessage, [1], at: stage.time, isSigned: false), on: link, to: 0)
    #expect(stage.ann.engine.counters.tooManyUnverified == refused + 1)
  }

  // MARK: Fragments

  @Test("A fragment with a bad total or index, or that contains a fragment, is dropped and not relayed")
  func noFragments() {
    var stage = LimitStage()
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

  @Test(
    "A fragment that contradicts earlier ones does not end the reassembly of their packet", arguments: [false, true])
  func contradiction(isOfTotal: Bool) {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    let frames = cem.fragments(of: cem.line(LimitStage.text(800), at: stage.time))
    let id = stage.time
    for frame in frames.dropLast() { stage.inject(frame) }
    stage.inject(
      isOfTotal
        ? cem.fragment(id, 0, of: 9, [1], at: stage.time)
        : cem.fragment(id, 0, of: UInt16(frames.count), [1], at: stage.time))
    #expect(stage.ann.engine.counters.badFragments == (isOfTotal ? 0 : 1))
    #expect(stage.ann.engine.assembler.count == (isOfTotal ? 2 : 1))
    stage.inject(frames[frames.count - 1])
    #expect(stage.ann.heard.count == 1 && stage.ann.engine.assembler.count == (isOfTotal ? 1 : 0))
  }

  @Test(
    "Fragments of a directed packet may be 30 s apart, and those of a public packet 120 s",
    arguments: [(29_900, true, true), (30_001, true, false), (119_000, false, true), (121_000, false, false)])
  func slowFragments(milliseconds: Int, isForOne: Bool, isHeard: Bool) {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    let recipient = isForOne ? stage.ann.id : nil
    let frames = cem.fragments(of: cem.line(LimitStage.text(800), at: stage.time, to: recipient))
    for frame in frames.dropLast() { stage.inject(frame) }
    stage.hall.pass(.milliseconds(milliseconds))
    #expect(stage.ann.engine.assembler.count == (isHeard || !isForOne ? 1 : 0))
    stage.inject(frames[frames.count - 1])
    #expect(stage.ann.heard.count == (isHeard ? 1 : 0))
  }

  @Test("A reassembled packet whose sender differs from its fragments' sender is dropped")
  func otherSenderInside() {
    var stage = LimitStage()
    let (cem, eve) = (Stranger(1), Stranger(2))
    stage.inject(cem.announce(at: stage.time))
    let line = cem.line("hello", at: stage.time)
    stage.inject(eve.fragment(1, 0, of: 1, line, at: stage.time))
    #expect(stage.ann.heard.isEmpty)
    stage.inject(cem.fragment(1, 0, of: 1, line, at: stage.time))
    #expect(stage.ann.heard.count == 1)
  }

  @Test("A fragmented packet is shown, and is relayed only as fragments")
  func passedOnOnce() {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.milliseconds(200))
    var types: [UInt8: Int] = [:]
    let bob = 1
    stage.hall.passes = { bytes, _, to in
      if to == bob { types[bytes[1], default: 0] += 1 }
      return true
    }
    let frames = cem.fragments(of: cem.line(LimitStage.text(1500), at: stage.time))
    for frame in frames { stage.inject(frame) }
    stage.hall.pass(.milliseconds(400))
    #expect(types[MessageType.fragment.rawValue] == frames.count)
    #expect(types[MessageType.message.rawValue] == nil)
    #expect(stage.ann.heard.count == 1)
    #expect(stage.bob.heard.count == 1)
  }

  @Test("A message to the broadcast ID, as Android sends it, is a public message, whole or in fragments")
  func everybody() {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.announce(at: stage.time))
    stage.inject(cem.line("hello", at: stage.time, to: .everybody))
    for frame in cem.fragments(of: cem.line(LimitStage.text(800), at: stage.time + 1, to: .everybody)) {
      stage.inject(frame)
    }
    stage.hall.pass(.milliseconds(500))
    #expect(stage.ann.heard.map(\.text) == ["hello", LimitStage.text(800)])
    #expect(Set(stage.bob.heard.map(\.text)) == ["hello", LimitStage.text(800)])
    #expect(stage.ann.engine.gossip.archive.messageCount == 2)
  }

  // MARK: Chat of unknown peers

  @Test(
    "A message of an unknown peer waits for up to 5 s for the peer's announce",
    arguments: [(4_900, true), (5_000, false)])
  func waiting(milliseconds: Int, isHeard: Bool) {
    var stage = LimitStage()
    let cem = Stranger(1)
    stage.inject(cem.line("hello", at: stage.time))
    #expect(stage.ann.heard.isEmpty)
    stage.hall.pass(.milliseconds(milliseconds))
    #expect(stage.bob.engine.gate.unknown.count == 0)
    stage.inject(cem.announce(at: stage.time))
    #expect(stage.ann.heard.count == (isHeard ? 1 : 0))
    #expect(stage.ann.engine.counters.chatOfUnknown == (isHeard ? 0 : 1))
    stage.hall.pass(.milliseconds(500))
    #expect(stage.bob.heard.count == (isHeard ? 1 : 0))
  }

  @Test("A fragmented message of an unknown peer waits for its announce, and is relayed only as fragments")
  func longWaiting() {
    var stage = LimitStage()
    let cem = Stranger(1)
    for frame in cem.fragments(of: cem.line(LimitStage.text(1500), at: stage.time)) { stage.inject(frame) }
    stage.hall.pass(.seconds(1))
    var lines = 0
    stage.hall.passes = { bytes, _, _ in
      if bytes[1] == MessageType.message.rawValue { lines += 1 }
      return true
    }
    stage.inject(cem.announce(at: stage.time))
    stage.hall.pass(.milliseconds(500))
    #expect(stage.ann.heard.map(\.text) == [LimitStage.text(1500)])
    #expect(stage.bob.heard.map(\.text) == [LimitStage.text(1500)])
    #expect(lines == 0)
  }

  @Test("Packets of unknown peers wait, up to 32 per link, 64 in total and 256 KiB; copies use no capacity")
  func waitingRoom() {
    var stage = LimitStage()
    let cem = Stranger(1)
    func flood(_ link: LinkID, _ text: String, _ count: Int = 50) {
      for number in 0..<count { stage.hall.inject(cem.line("\(text) \(number)", at: stage.time), on: link, to: 0) }
    }
    flood(stage.link, "one")
    #expect(stage.ann.engine.gate.unknown.count == 32)
    #expect(stage.ann.engine.counters.chatOfUnknown == 18)
    let (second, third) = (stage.hall.connect(to: 0), stage.hall.connect(to: 0))
    flood(second, "one", 32)
    #expect(stage.ann.engine.gate.unknown.count == 32)
    flood(second, "two")
    flood(third, "three")
    #expect(stage.ann.engine.gate.unknown.count == 64)
    // Packets that waited for a sender's announce are dropped with their link.
    let before = stage.ann.engine.counters.chatOfUnknown
    stage.hall.handle(.linkClosed(stage.link), at: 0)
    stage.hall.handle(.linkClosed(second), at: 0)
    #expect(stage.ann.engine.counters.chatOfUnknown == before + 64)
    #expect(stage.ann.engine.gate.unknown.count == 0)
    #expect(stage.ann.engine.gate.unknown.bytes == 0)
    var random = SeededRandom(seed: 1)
    for _ in 0..<20 {
      let noise = random.bytes(30_000).map { 0x20 + $0 % 0x5F }
      stage.hall.inject(cem.packet(.message, noise, at: stage.time), on: third, to: 0)
    }
    #expect(stage.ann.engine.gate.unknown.bytes <= 256 << 10)
    #expect(stage.ann.engine.gate.unknown.count < 20)
  }
}
