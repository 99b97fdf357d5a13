import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Delivery of favourite notices and read receipts")
struct OwedNewsTests {
  /// Ann and Bob, neighbours with a session, and the link between them.
  private func pair() throws -> (MeshHall, LinkID) {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    let link = hall.connect(0, 1)
    hall.pass(.seconds(2))
    try hall.tell("first", to: 1, as: 1, at: 0)
    hall.pass(.seconds(3))
    return (hall, link)
  }

  private func isFavoured(_ hall: MeshHall) -> Bool {
    hall.nodes[1].engine.courier.favouredBy.contains(hall.nodes[0].id)
  }

  @Test("A favourite notice set before a session exists is delivered and acknowledged")
  func beforeSession() {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    hall.handle(.favourite(hall.nodes[1].id, true), at: 0)
    hall.pass(.seconds(5))
    #expect(isFavoured(hall) && hall.nodes[0].engine.messages.owed.deadline == nil)
  }

  @Test(
    "A favourite notice set or withdrawn while the peer is absent is delivered when it returns",
    arguments: [true, false])
  func away(isFavourite: Bool) throws {
    var (hall, link) = try pair()
    if !isFavourite {
      hall.handle(.favourite(hall.nodes[1].id, true), at: 0)
      hall.pass(.seconds(2))
    }
    hall.disconnect(link)
    hall.pass(.seconds(400))
    hall.handle(.favourite(hall.nodes[1].id, isFavourite), at: 0)
    hall.pass(.seconds(60))
    #expect(isFavoured(hall) != isFavourite)
    hall.connect(0, 1)
    hall.pass(.seconds(30))
    #expect(isFavoured(hall) == isFavourite)
  }

  @Test("A favourite notice sealed for a lost session is sent again in the next session")
  func staleSession() throws {
    var (hall, _) = try pair()
    hall.restart(1)
    hall.handle(.favourite(hall.nodes[1].id, true), at: 0)
    hall.connect(0, 1)
    hall.pass(.seconds(10))
    #expect(isFavoured(hall))
  }

  @Test("Of several waiting favourite notices only the last takes effect")
  func superseded() throws {
    var (hall, link) = try pair()
    hall.disconnect(link)
    for isFavourite in [true, false, true, false] {
      hall.handle(.favourite(hall.nodes[1].id, isFavourite), at: 0)
    }
    hall.connect(0, 1)
    hall.pass(.seconds(30))
    #expect(!isFavoured(hall) && hall.nodes[1].favourited.count == 1)
  }

  @Test("A read receipt for an absent sender is delivered when the sender returns")
  func receiptAway() throws {
    var (hall, link) = try pair()
    hall.disconnect(link)
    let id = try #require(hall.nodes[1].told.first?.id)
    hall.handle(.read(id, from: hall.nodes[0].id), at: 1)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].progress[1]?.last == .delivered)
    hall.connect(0, 1)
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].progress[1]?.last == .read)
  }

  @Test("A read receipt lost with a session is sent once more, in the next session")
  func receiptStale() throws {
    var (hall, link) = try pair()
    let id = try #require(hall.nodes[1].told.first?.id)
    var dropped = 0
    // The receipt is lost, and neither node can see that it is.
    hall.passes = { _, from, _ in
      guard from == 1, dropped == 0 else { return true }
      dropped += 1
      return false
    }
    hall.handle(.read(id, from: hall.nodes[0].id), at: 1)
    hall.pass(.seconds(1))
    #expect(dropped == 1 && hall.nodes[1].receiptsSettled.isEmpty)
    hall.disconnect(link)
    hall.connect(0, 1)
    hall.pass(.seconds(20))
    #expect(hall.nodes[0].progress[1]?.last == .read)
    try hall.tell("second", to: 1, as: 2, at: 0)
    hall.pass(.seconds(3))
    #expect(hall.nodes[1].receiptsSettled == [id] && hall.nodes[1].engine.messages.owed.receipts == 0)
  }

  @Test("A blocked peer gets no read receipt, not even after it is unblocked")
  func blocked() throws {
    var (hall, _) = try pair()
    let id = try #require(hall.nodes[1].told.first?.id)
    hall.handle(.block(hall.nodes[0].id, true), at: 1)
    hall.handle(.read(id, from: hall.nodes[0].id), at: 1)
    hall.handle(.block(hall.nodes[0].id, false), at: 1)
    hall.pass(.seconds(120))
    #expect(hall.nodes[0].progress[1]?.last == .delivered && hall.nodes[1].receiptsSettled == [id])
  }
}
