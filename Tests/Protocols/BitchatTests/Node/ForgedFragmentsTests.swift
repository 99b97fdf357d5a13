import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Forged mesh packets in fragments")
struct ForgedFragmentsTests {
  /// The fragments of a long public message in Bob's name.
  private func fragments(_ hall: MeshHall, signedBy key: Ed25519.PrivateKey) throws -> [[UInt8]] {
    // The text does not compress to one fragment.
    let text = (0..<400).map { "\($0 &* 2_654_435_761 % 1_000_003)" }.joined()
    let packet = Packet(
      type: .message, timestamp: hall.time, sender: hall.nodes[1].id, payload: try PublicText(text).payload)
    let bytes = try packet.signed(with: key).encoded()
    let view = try PacketView(bytes)
    let plan = try #require(
      FragmentPlan(view, id: FragmentID(reading: [UInt8](repeating: 7, count: 8)), frameLimit: 300))
    #expect(plan.fragments.count > 3)
    return try plan.fragments.map { try $0.encoded() }
  }

  private func hall() -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    return hall
  }

  @Test(
    "A forged packet in fragments under a known peer's name is not shown or stored, and the genuine one is"
  )
  func forged() throws {
    var random = SeededRandom(seed: 5)
    var hall = hall()
    let link = hall.connect(stranger: Stranger(1), to: 0)
    for frame in try fragments(hall, signedBy: Ed25519.PrivateKey(randomFrom: &random)) {
      hall.inject(frame, on: link, to: 0)
    }
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].heard.isEmpty && hall.nodes[0].engine.gossip.archive.messageCount == 0)
    #expect(hall.nodes[0].engine.counters.badSignatures == 1)
    let key = hall.nodes[1].engine.identity.signingKey
    for frame in try fragments(hall, signedBy: key) { hall.inject(frame, on: link, to: 0) }
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].heard.count == 1 && hall.nodes[0].engine.gossip.archive.messageCount == 1)
  }
}
