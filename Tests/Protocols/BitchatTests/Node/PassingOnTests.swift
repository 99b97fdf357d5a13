import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Which mesh packets are relayed, and over which links")
struct PassingOnTests {
  /// Ann, and known strangers with links to her.
  private func stage(_ strangers: [Stranger]) -> (hall: MeshHall, links: [LinkID]) {
    var hall = MeshHall()
    hall.add(["ann"])
    let links = strangers.map { hall.connect(stranger: $0, to: 0) }
    hall.pass(.milliseconds(500))
    return (hall, links)
  }

  /// The packets of this type that were sent on a link.
  private func sent(_ hall: MeshHall, on link: LinkID, _ type: MessageType) -> [[UInt8]] {
    (hall.nodes[0].sent[link] ?? []).filter { $0[1] == type.rawValue }
  }

  @Test("A relayed packet differs only in its TTL, and is sent to every neighbour except its source")
  func verbatim() {
    let (cem, dea, eli) = (Stranger(1), Stranger(2), Stranger(3))
    var (hall, links) = stage([cem, dea, eli])
    // Padding is relayed, too.
    let line = cem.line("hello", at: hall.time, timeToLive: 5) + [7, 7, 7, 7, 7, 7, 7]
    hall.inject(line, on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(sent(hall, on: links[0], .message).isEmpty)
    #expect(sent(hall, on: links[1], .message) == [line.with(4, at: 2)])
    #expect(sent(hall, on: links[2], .message) == [line.with(4, at: 2)])
    // With one hop left the packet is not relayed.
    hall.inject(cem.line("the end", at: hall.time, timeToLive: 1), on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(hall.nodes[0].heard.count == 2)
    #expect(sent(hall, on: links[1], .message).count == 1)
  }

  @Test("A relay sends the highest TTL of the copies less one, or with the apps' policy that of the first")
  func bestCopy() {
    for (policy, timeToLive) in [(RelayPolicy.mains, UInt8(5)), (.apps, 3)] {
      let (cem, dea, eli) = (Stranger(1), Stranger(2), Stranger(3))
      // With two links a copy does not cancel the relay under the apps' policy.
      var (hall, links) = stage(policy == .apps ? [cem, dea] : [cem, dea, eli])
      hall.nodes[0].engine.configuration.relayPolicy = policy
      let line = cem.line("hello", at: hall.time, timeToLive: 4)
      hall.inject(line, on: links[0], to: 0)
      hall.inject(line.with(6, at: 2), on: links[0], to: 0)
      hall.pass(.milliseconds(500))
      #expect(sent(hall, on: links[1], .message) == [line.with(timeToLive, at: 2)])
    }
  }

  @Test("A known peer's announce is relayed when the node wakes after 120 ms, and at the latest after 370 ms")
  func patientRelay() {
    for hasEvent in [false, true] {
      let (cem, dea) = (Stranger(1), Stranger(2))
      var (hall, links) = stage([cem, dea])
      hall.pass(.seconds(5))
      func relays() -> Int {
        sent(hall, on: links[1], .announce).count { (try? PacketView($0))?.sender == cem.id }
      }
      let before = relays()
      hall.inject(cem.announce(at: hall.time), on: links[0], to: 0)
      hall.pass(.milliseconds(121))
      #expect(relays() == before, "the node does not wake up for the relay alone")
      if hasEvent {
        hall.inject(dea.announce(at: hall.time), on: links[1], to: 0)
      } else {
        hall.pass(.milliseconds(250))
      }
      #expect(relays() == before + 1)
    }
  }

  @Test("A packet for a neighbour is sent to that neighbour only, and a packet for this node is not relayed")
  func directed() {
    let (cem, dea, eli) = (Stranger(1), Stranger(2), Stranger(3))
    var (hall, links) = stage([cem, dea, eli])
    let packet = cem.packet(
      .noiseEncrypted, [UInt8](repeating: 1, count: 40), at: hall.time, to: dea.id, isSigned: false)
    hall.inject(packet, on: links[0], to: 0)
    hall.inject(cem.line("for you", at: hall.time, to: hall.nodes[0].id), on: links[0], to: 0)
    hall.inject(
      cem.packet(.noiseEncrypted, [1, 2, 3], at: hall.time, to: hall.nodes[0].id, isSigned: false), on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(sent(hall, on: links[1], .noiseEncrypted) == [packet.with(6, at: 2)])
    #expect(sent(hall, on: links[2], .noiseEncrypted).isEmpty)
    for link in links { #expect(sent(hall, on: link, .message).isEmpty) }
    // A packet for an unknown recipient is relayed on all links.
    hall.inject(
      cem.packet(.noiseEncrypted, [4, 5, 6], at: hall.time, to: Stranger(9).id, isSigned: false), on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(sent(hall, on: links[1], .noiseEncrypted).count == 2)
    #expect(sent(hall, on: links[2], .noiseEncrypted).count == 1)
  }

  @Test("A neighbour with two links gets a packet on both links, unless it sent the packet on one of them")
  func twoLinks() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    hall.pass(.seconds(1))
    let second = hall.connect(stranger: cem, to: 0)
    hall.pass(.milliseconds(500))
    hall.inject(cem.line("hello", at: hall.time), on: links[0], to: 0)
    hall.inject(dea.line("hello back", at: hall.time), on: links[1], to: 0)
    hall.pass(.milliseconds(500))
    for link in [links[0], second] {
      let lines = sent(hall, on: link, .message)
      #expect(lines.count == 1 && lines.first?[14..<22].elementsEqual(dea.id.bytes) == true)
    }
    #expect(sent(hall, on: links[1], .message).count == 1)
  }

  @Test("A copy with another signature does not suppress the relay of a packet that cannot be verified")
  func otherSignature() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    let post = cem.packet(.boardPost, [1, 2, 3], at: hall.time)
    for bytes in [post.flipped(at: -1), post, post] { hall.inject(bytes, on: links[0], to: 0) }
    hall.pass(.milliseconds(500))
    #expect(Set(sent(hall, on: links[1], .boardPost)) == [post.flipped(at: -1).with(6, at: 2), post.with(6, at: 2)])
    #expect(hall.nodes[0].engine.counters.duplicates == 1)
  }

  @Test("An unencrypted file for another peer is relayed within the limits for packets that cannot be verified")
  func fileForAnother() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    let file = cem.packet(.fileTransfer, [1, 2, 3], at: hall.time, to: dea.id)
    for bytes in [file.flipped(at: -1), file, file] { hall.inject(bytes, on: links[0], to: 0) }
    hall.pass(.milliseconds(500))
    #expect(Set(sent(hall, on: links[1], .fileTransfer)) == [file.flipped(at: -1).with(6, at: 2), file.with(6, at: 2)])
    hall.pass(.seconds(2))
    for number in 1...200 as ClosedRange<UInt64> {
      let garbage = cem.packet(
        .fileTransfer, [UInt8](repeating: UInt8(number), count: 400), at: hall.time + number, to: dea.id,
        isSigned: false)
      hall.inject(garbage, on: links[0], to: 0)
    }
    hall.pass(.milliseconds(900))
    #expect(sent(hall, on: links[1], .fileTransfer).count == 22)
    #expect(hall.nodes[0].engine.counters.tooManyUnverified == 180)
  }

  @Test("A public message that a relay compressed differently is a duplicate")
  func recompressed() throws {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    let text = String(repeating: "hello ", count: 40)
    let line = cem.line(text, at: hall.time)
    let view = try PacketView(line)
    #expect(view.flags.contains(.compressed))
    let payload = Array(text.utf8)
    var plain = Array(line[..<11]) + [view.flags.subtracting(.compressed).rawValue]
    plain += withUnsafeBytes(of: UInt16(payload.count).bigEndian, Array.init) + cem.id.bytes + payload
    plain += try #require(view.signature)
    hall.inject(plain, on: links[0], to: 0)
    hall.inject(line, on: links[1], to: 0)
    hall.inject(line, on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(hall.nodes[0].heard.map(\.text) == [text])
    #expect(hall.nodes[0].engine.counters.duplicates == 2)
  }
}
