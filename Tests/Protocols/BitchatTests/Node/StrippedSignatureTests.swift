import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Signatures whose last byte Android removed as padding")
struct StrippedSignatureTests {
  /// The fragments of a long message of Bob's, whose signature ends with this byte, without that last byte.
  private func fragments(_ hall: MeshHall, lastByte: UInt8) throws -> [[UInt8]] {
    for number in 0..<5000 {
      // The text does not compress to one fragment.
      let text = (0..<400).map { "\($0 &* 2_654_435_761 % 1_000_003)" }.joined() + "\(number)"
      let packet = Packet(
        type: .message, timestamp: hall.time, sender: hall.nodes[1].id, payload: try PublicText(text).payload)
      let bytes = try packet.signed(with: hall.nodes[1].engine.identity.signingKey).encoded()
      guard bytes.last == lastByte else { continue }
      let plan = try #require(
        FragmentPlan(
          PacketView(bytes), id: FragmentID(reading: [UInt8](repeating: 7, count: 8)), frameLimit: 300))
      var slices = try plan.fragments.map { try Fragment(reading: $0.payload) }
      let last = slices.removeLast()
      slices.append(
        try Fragment(
          id: last.id, index: last.index, total: last.total, type: last.type, slice: Array(last.slice.dropLast())))
      return try slices.map { slice in
        try Packet(type: .fragment, timestamp: hall.time, sender: hall.nodes[1].id, payload: slice.bytes).encoded()
      }
    }
    return []
  }

  @Test(
    "A signature without its last byte is accepted only if this byte is 01",
    arguments: [1, 2])
  func stripped(lastByte: UInt8) throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    let link = hall.connect(stranger: Stranger(1), to: 0)
    let fragments = try fragments(hall, lastByte: lastByte)
    #expect(fragments.count > 3)
    for frame in fragments { hall.inject(frame, on: link, to: 0) }
    #expect(hall.nodes[0].heard.count == (lastByte == 1 ? 1 : 0))
    #expect(hall.nodes[0].engine.gossip.archive.messageCount == (lastByte == 1 ? 1 : 0))
  }
}
