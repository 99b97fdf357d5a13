import Common
import Crypto
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Floods of mesh packets")
struct FloodTests {
  enum Flood: CaseIterable {
    case identities, forgedAnnounces, forgedLines, ownLines, chatOfUnknown, endlessFragments, wholeFragments, requests
    case handshakes, ciphertexts, unknownTypes, garbage, copies, zeros, staleAnswers
  }

  /// An attacker that sends harmful packets as fast as a link takes them.
  private struct Flooder {
    let kind: Flood
    let known: Stranger
    let victim: PeerID
    let node: PeerID
    var number: UInt64 = 0
    /// A long message that compresses well. Its signature is wrong at any timestamp, so it is made once.
    private let zeros: [UInt8]

    init(_ kind: Flood, known: Stranger, victim: PeerID, node: PeerID) {
      (self.kind, self.known, self.victim, self.node) = (kind, known, victim, node)
      zeros =
        kind == .zeros ? known.packet(.message, [UInt8](repeating: 0x61, count: 60_000), at: 0).flipped(at: -1) : []
    }

    /// The next packet of the flood, and the packets that precede it.
    mutating func next(at time: UInt64) -> [UInt8] {
      number += 1
      let text = "line \(number)"
      switch kind {
      case .identities: return Stranger(10_000 + number).announce(at: time)
      case .forgedAnnounces: return known.announce(at: time + number).flipped(at: -1)
      case .forgedLines: return known.line(text, at: time).flipped(at: -1)
      case .ownLines: return known.line(text + String(repeating: "x", count: 300), at: time)
      case .chatOfUnknown: return unsigned(.message, Array(text.utf8), from: number, at: time)
      case .endlessFragments:
        return fragment(number, 0, of: 10_000, at: time, from: number % 300)
      case .wholeFragments: return fragment(number / 400, UInt16(number % 400), of: 401, at: time, from: 1)
      case .requests:
        return known.packet(
          .requestSync, (try? SyncRequest(filter: SyncFilter([])))?.bytes ?? [], at: time + number, timeToLive: 0)
      case .handshakes:
        var random = SeededRandom(seed: number)
        return unsigned(.noiseHandshake, random.bytes(32), from: number, at: time, to: node)
      case .ciphertexts:
        return unsigned(
          .noiseEncrypted, [UInt8](repeating: UInt8(number & 0xFF), count: 60), from: number % 500, at: time, to: node)
      case .unknownTypes:
        return unsigned(MessageType(rawValue: UInt8(0x30 + number % 200)), Array(text.utf8), from: number, at: time)
      case .garbage: return [UInt8](repeating: UInt8(number & 0xFF), count: 100)
      case .copies: return known.line("always the same", at: time / 1000 * 1000)
      case .zeros: return zeros.with(time: time + number)
      case .staleAnswers:
        return known.packet(.message, Array(text.utf8), at: time - 3_600_000, timeToLive: 0, isSyncAnswer: true)
      }
    }

    private func unsigned(
      _ type: MessageType, _ payload: [UInt8], from sender: UInt64, at time: UInt64, to recipient: PeerID? = nil
    ) -> [UInt8] {
      let packet = Packet(
        type: type, timestamp: time, sender: PeerID(rawValue: 77_000_000 + sender), recipient: recipient,
        payload: payload)
      return (try? packet.encoded()) ?? []
    }

    private func fragment(_ id: UInt64, _ index: UInt16, of total: UInt16, at time: UInt64, from sender: UInt64)
      -> [UInt8]
    {
      var random = SeededRandom(seed: number)
      var payload = withUnsafeBytes(of: id.bigEndian, Array.init)
      payload += withUnsafeBytes(of: index.bigEndian, Array.init) + withUnsafeBytes(of: total.bigEndian, Array.init)
      payload += [MessageType.message.rawValue] + random.bytes(460)
      return unsigned(.fragment, payload, from: sender, at: time)
    }
  }

  /// Compares the records of the engine with its limits.
  private func expectBounds(_ engine: MeshEngine, _ flood: Flood) {
    #expect(engine.neighbourhood.peers.count <= 1024 && engine.neighbourhood.peers.pinCount <= 4096, "\(flood)")
    #expect(engine.gate.unknown.count <= 64 && engine.gate.unknown.bytes <= 256 << 10, "\(flood)")
    #expect(engine.assembler.count <= 128 && engine.assembler.bytes <= 8 << 20, "\(flood)")
    #expect(engine.pending.count <= 1024 && engine.pending.bytes <= 2 << 20, "\(flood)")
    #expect(engine.transmitter.paced.longest <= PacedPackets.limit, "\(flood)")
    #expect(engine.gate.seen.counts.keys <= 20_000 && engine.gate.seen.counts.ids <= 10_000, "\(flood)")
    #expect(engine.gossip.archive.messageCount <= 1000 && engine.gossip.archive.fragmentCount <= 3000, "\(flood)")
    #expect(engine.gossip.archive.announceCount <= 1024 && engine.gossip.archive.bytes <= 6 << 20, "\(flood)")
    #expect(engine.messages.sessions.halfOpen <= 64 && engine.messages.sessions.peers.count <= 256, "\(flood)")
    #expect(engine.gate.witnesses.count <= 16, "\(flood)")
    #expect(engine.gate.budget.count <= engine.neighbourhood.links.count, "\(flood)")
    #expect(engine.counters.malformed.count <= 32, "\(flood)")
  }

  @Test(
    "At 2,000 packets a second on one link, state is bounded and chat from other links arrives within 1 s",
    arguments: Flood.allCases)
  func flood(_ flood: Flood) throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    hall.connect(0, 1)
    hall.connect(0, 2)
    let known = Stranger(1)
    let link = hall.connect(stranger: known, to: 0)
    hall.pass(.seconds(25))
    var flooder = Flooder(flood, known: known, victim: hall.nodes[1].id, node: hall.nodes[0].id)
    let seconds = Extent.of(1, all: 3)
    for second in 0..<seconds {
      try hall.tell("private \(second)", to: 0, as: UInt32(second), at: 1)
      for number in 0..<2000 {
        // Bob sends a public message when the flood has used up its quota.
        if number == 600 {
          let said = hall.say("public \(second)", at: 1)
          #expect(said != nil)
        }
        hall.inject(flooder.next(at: hall.time), on: link, to: 0)
        if number % 10 == 9 { hall.pass(.milliseconds(5)) }
      }
      expectBounds(hall.nodes[0].engine, flood)
    }
    // Now Bob's last message is a second old.
    hall.pass(.milliseconds(300))
    let expected = (0..<seconds).map { "public \($0)" }
    #expect(hall.nodes[0].heard.map(\.text).filter { $0.hasPrefix("public") } == expected, "\(flood)")
    #expect(hall.nodes[2].heard.map(\.text).filter { $0.hasPrefix("public") } == expected, "\(flood)")
    #expect(hall.nodes[0].told.map(\.text) == (0..<seconds).map { "private \($0)" }, "\(flood)")
    #expect(
      hall.nodes[1].engine.neighbourhood.links.count == 1 && hall.nodes[2].engine.neighbourhood.links.count == 1,
      "\(flood)")
    // After all links have closed, the records of the senders are deleted.
    hall.handle(.linkClosed(link), at: 0)
    for link in hall.links(0, 1) + hall.links(0, 2) { hall.disconnect(link) }
    hall.pass(.seconds(400))
    let engine = hall.nodes[0].engine
    #expect(engine.gate.unknown.count == 0 && engine.assembler.count == 0 && engine.pending.count == 0, "\(flood)")
    #expect(engine.messages.sessions.halfOpen == 0, "\(flood)")
    #expect(engine.neighbourhood.peers.count == 0, "\(flood)")
  }

  @Test("Forged messages and endless fragments on 7 links do not block a neighbour's short or long message")
  func manyLinks() {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1, frameLimit: 200)
    let eves = (UInt64(1)...7).map { Stranger($0) }
    let links = eves.map { hall.connect(stranger: $0, to: 0) }
    hall.pass(.seconds(5))
    let forged = eves.map { $0.line("never said", at: 0).flipped(at: -1) }
    var number: UInt64 = 0
    for round in 0..<24 {
      if round == 4 {
        for text in ["short", LimitStage.text(2000)] {
          let said = hall.say(text, at: 1)
          #expect(said != nil)
        }
      }
      for index in eves.indices {
        for _ in 0..<(round == 0 ? 300 : 10) {
          number += 1
          hall.inject(forged[index].with(time: hall.time + number), on: links[index], to: 0)
        }
        for _ in 0..<10 {
          number += 1
          let fragment = eves[index].fragment(number, 0, of: 2, [1], at: hall.time)
          hall.inject(fragment.with(sender: PeerID(rawValue: number)), on: links[index], to: 0)
        }
      }
      hall.pass(.milliseconds(25))
    }
    #expect(hall.nodes[0].engine.counters.tooManySignatures > 0)
    let abandoned = hall.nodes[0].engine.assembler.abandoned
    #expect(abandoned > 0 && hall.nodes[0].engine.counters.abandonedFragments == UInt64(abandoned))
    hall.pass(.milliseconds(200))
    #expect(hall.nodes[0].heard.map(\.text) == ["short", LimitStage.text(2000)])
  }

  @Test("Of 300 links that came and went no state remains")
  func links() {
    var hall = MeshHall()
    hall.add(["ann"])
    for number in UInt64(1)...300 {
      let eve = Stranger(number)
      let link = hall.connect(stranger: eve, to: 0)
      hall.inject(Stranger(number + 1000).line("hello", at: hall.time), on: link, to: 0)
      hall.inject(eve.fragment(1, 0, of: 2, [1], at: hall.time), on: link, to: 0)
      hall.pass(.milliseconds(100))
      hall.handle(.linkClosed(link), at: 0)
      hall.inject(Stranger(number + 1000).announce(at: hall.time), on: link, to: 0)
    }
    let engine = hall.nodes[0].engine
    #expect(engine.neighbourhood.links.isEmpty && engine.gate.budget.count == 0 && engine.gate.unknown.count == 0)
    #expect(engine.gossip.deadline == nil)
    #expect(engine.transmitter.paced.count == 0)
  }

  @Test("A node remembers 1,024 of 1,201 peers, among them a favourite with its pinned key")
  func manyPeers() {
    var hall = MeshHall()
    hall.add(["ann"])
    let friend = Stranger(1)
    let link = hall.connect(stranger: friend, to: 0)
    hall.handle(.favourite(friend.id, true), at: 0)
    for number in UInt64(0)..<1200 {
      hall.inject(Stranger(100 + number).announce(at: hall.time), on: link, to: 0)
      hall.pass(.milliseconds(100))
    }
    let engine = hall.nodes[0].engine
    #expect(engine.neighbourhood.peers.count == 1024)
    #expect(engine.peer(friend.id) != nil)
    #expect(engine.gossip.archive.announceCount <= 1024)
    #expect(hall.nodes[0].gone.count == 1201 - 1024)
  }
}
