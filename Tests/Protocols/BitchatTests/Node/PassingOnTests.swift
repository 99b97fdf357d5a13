import Common
import Crypto
import Testing

@testable import Bitchat

@Suite("What goes on, and where to")
struct PassingOnTests {
  /// Ann, and strangers who have links to her and are known.
  private func stage(_ strangers: [Stranger]) -> (hall: MeshHall, links: [LinkID]) {
    var hall = MeshHall()
    hall.add(["ann"])
    let links = strangers.map { hall.connect(stranger: $0, to: 0) }
    hall.pass(.milliseconds(500))
    return (hall, links)
  }

  /// The packets of this type that went out on a link.
  private func sent(_ hall: MeshHall, on link: LinkID, _ type: MessageType) -> [[UInt8]] {
    (hall.nodes[0].sent[link] ?? []).filter { $0[1] == type.rawValue }
  }

  @Test("A packet goes on as it came, but for its time to live, to every neighbour but the one that it came from")
  func verbatim() {
    let (cem, dea, eli) = (Stranger(1), Stranger(2), Stranger(3))
    var (hall, links) = stage([cem, dea, eli])
    // Padding, too, goes on.
    let line = cem.line("hello", at: hall.time, timeToLive: 5) + [7, 7, 7, 7, 7, 7, 7]
    hall.inject(line, on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(sent(hall, on: links[0], .message).isEmpty)
    #expect(sent(hall, on: links[1], .message) == [line.with(4, at: 2)])
    #expect(sent(hall, on: links[2], .message) == [line.with(4, at: 2)])
    // One hop is left: it ends here.
    hall.inject(cem.line("the end", at: hall.time, timeToLive: 1), on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(hall.nodes[0].heard.count == 2)
    #expect(sent(hall, on: links[1], .message).count == 1)
  }

  @Test("A packet goes as far as its best copy that comes before it leaves; the apps stay with the first")
  func bestCopy() {
    for (policy, timeToLive) in [(RelayPolicy.mains, UInt8(5)), (.apps, 3)] {
      let (cem, dea, eli) = (Stranger(1), Stranger(2), Stranger(3))
      // With two links a copy cancels nothing for the apps.
      var (hall, links) = stage(policy == .apps ? [cem, dea] : [cem, dea, eli])
      hall.nodes[0].engine.configuration.relayPolicy = policy
      let line = cem.line("hello", at: hall.time, timeToLive: 4)
      hall.inject(line, on: links[0], to: 0)
      hall.inject(line.with(6, at: 2), on: links[0], to: 0)
      hall.pass(.milliseconds(500))
      #expect(sent(hall, on: links[1], .message) == [line.with(timeToLive, at: 2)])
    }
  }

  @Test("What is for a neighbour goes to that one alone, and what is for this node to nobody")
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
    // Whom nobody here knows everybody is asked for.
    hall.inject(
      cem.packet(.noiseEncrypted, [4, 5, 6], at: hall.time, to: Stranger(9).id, isSigned: false), on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(sent(hall, on: links[1], .noiseEncrypted).count == 2)
    #expect(sent(hall, on: links[2], .noiseEncrypted).count == 1)
  }

  @Test("A neighbour with two links of its own hears a packet on both, and not at all if it came from one of them")
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

  @Test("A packet that nobody here verifies is not suppressed by a copy with another signature")
  func otherSignature() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    let post = cem.packet(.boardPost, [1, 2, 3], at: hall.time)
    for bytes in [post.flipped(at: -1), post, post] { hall.inject(bytes, on: links[0], to: 0) }
    hall.pass(.milliseconds(500))
    #expect(Set(sent(hall, on: links[1], .boardPost)) == [post.flipped(at: -1).with(6, at: 2), post.with(6, at: 2)])
    #expect(hall.nodes[0].engine.counters.duplicates == 1)
  }

  @Test("A file in clear for somebody else goes on like what nobody here verifies: so many, and no copy suppresses one")
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

  @Test("A line that a relay has compressed in another way is the same line")
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
