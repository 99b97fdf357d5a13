import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Long private mesh texts")
struct LongTextTests {
  private static func text(_ bytes: Int) -> String { (0..<bytes / 8).map { "\(10_000_000 + $0)" }.joined() }

  @Test("A text of 64 KiB arrives in order and before the next text, with at most 64 pieces in transit")
  func inOrder() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    var (underWay, most) = (0, 0)
    hall.passes = { bytes, from, _ in
      if bytes[1] == MessageType.noiseEncrypted.rawValue {
        underWay += from == 0 ? 1 : -1
        most = max(most, underWay)
      }
      return true
    }
    let text = Self.text(65_536)
    try hall.tell(text, to: 1, as: 1, at: 0)
    try hall.tell("short", to: 1, as: 2, at: 0)
    hall.pass(.seconds(60))
    let told = hall.nodes[1].told.map(\.text)
    #expect(told.dropLast().joined() == text && told.last == "short")
    #expect(most <= Outbox.window + 2 && hall.nodes[0].progress[1]?.last == .delivered)
    #expect(hall.nodes[0].progress[2]?.last == .delivered && hall.nodes[0].engine.messages.outbox.bytes == 0)
  }

  @Test("With one of twenty packets lost every long text arrives complete", arguments: UInt64(1)...3)
  func lossy(seed: UInt64) throws {
    var hall = MeshHall(seed: seed)
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    hall.loss = 5
    for number in UInt32(1)...3 { try hall.tell(Self.text(40_000), to: 1, as: number, at: 0) }
    let ann = hall.nodes[0]
    hall.pass(.seconds(900)) { (1...3).allSatisfy { ann.progress[$0]?.last == .delivered } }
    #expect((1...3).allSatisfy { ann.progress[$0]?.last == .delivered })
    #expect(hall.nodes[1].told.map(\.text.utf8.count).reduce(0, +) == 120_000)
  }
}
