import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Courier slots for the messages of one depositor")
struct CourierPlacesTests {
  @Test("A message is given only to a courier that can carry all envelopes of the message")
  func wholeLetters() throws {
    var hall = CourierTests.apart(["ann", "bob", "cem", "dan"])
    let text = LimitStage.text(700)
    try hall.tell(text, to: 2, as: 1, at: 0)
    CourierTests.meet(0, 1, in: &hall)
    #expect(hall.nodes[1].engine.carried == 0 && hall.nodes[0].progress[1] == nil)
    hall.handle(.favourite(hall.nodes[0].id, true), at: 3)
    hall.nodes[0].engine.favour(by: hall.nodes[3].id, true)
    CourierTests.meet(0, 3, in: &hall)
    #expect(hall.nodes[3].engine.carried == 3 && hall.nodes[0].progress[1] == [.sent])
    CourierTests.meet(3, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text).joined() == text)
  }

  @Test("A courier whose slots for a depositor are used up gets no envelope until one is acknowledged")
  func fullCourier() throws {
    var hall = CourierTests.apart(["ann", "bob", "cem"])
    for number in UInt32(1)...3 { try hall.tell("letter \(number)", to: 2, as: number, at: 0) }
    CourierTests.meet(0, 1, in: &hall)
    #expect(hall.nodes[1].engine.carried == 2 && hall.nodes[0].progress[3] == nil)
    #expect(hall.nodes[1].engine.counters.courier.deposited == 0)
    CourierTests.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text) == ["letter 1", "letter 2"])
    CourierTests.meet(1, 0, in: &hall)
    #expect(hall.nodes[0].progress[3] == [.sent])
    CourierTests.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text) == ["letter 1", "letter 2", "letter 3"])
  }

  @Test("A delivered envelope frees slots only at the courier that delivered it; at others they stay used")
  func otherCouriers() throws {
    var hall = CourierTests.apart(["ann", "bob", "cem", "dan"])
    for number in UInt32(1)...2 { try hall.tell("letter \(number)", to: 2, as: number, at: 0) }
    for courier in [1, 3] { CourierTests.meet(0, courier, in: &hall) }
    #expect(hall.nodes[1].engine.carried == 2 && hall.nodes[3].engine.carried == 2)
    CourierTests.meet(1, 2, in: &hall)
    hall.handle(.favourite(hall.nodes[2].id, true), at: 1)
    CourierTests.meet(1, 0, in: &hall)
    #expect(hall.nodes[0].progress[1]?.last == .delivered)
    try hall.tell("letter 3", to: 2, as: 3, at: 0)
    CourierTests.meet(0, 3, in: &hall)
    #expect(hall.nodes[0].progress[3] == nil && hall.nodes[3].engine.counters.courier.tooManyOfDepositor == 0)
    CourierTests.meet(0, 1, in: &hall)
    #expect(hall.nodes[0].progress[3] == [.sent])
    // Wait until the envelopes expire.
    hall.leap(.seconds(25 * 3600))
    try hall.tell("letter 4", to: 2, as: 4, at: 0)
    CourierTests.meet(0, 3, in: &hall)
    #expect(hall.nodes[3].engine.courier.desk.bag.envelopes.count == 1)
  }

  @Test("The number of slots that are used at each courier is known after a restart")
  func booksAfterRestart() throws {
    var hall = CourierTests.apart(["ann", "bob", "cem"])
    for number in UInt32(1)...2 { try hall.tell("letter \(number)", to: 2, as: number, at: 0) }
    CourierTests.meet(0, 1, in: &hall)
    hall.restart(0)
    hall.pass(.seconds(1))
    CourierTests.meet(0, 2, for: .seconds(5), in: &hall)
    hall.pass(.seconds(400))
    try hall.tell("letter 3", to: 2, as: 3, at: 0)
    CourierTests.meet(0, 1, in: &hall)
    #expect(hall.nodes[1].engine.counters.courier.tooManyOfDepositor == 0)
  }

  @Test("1,100 invented peers that mark this node as favourite do not displace a neighbour that does")
  func manyFavourers() throws {
    var hall = CourierTests.apart(["ann", "bob"])
    for number in UInt64(1)...1100 { hall.nodes[0].engine.favour(by: PeerID(rawValue: number), true) }
    CourierTests.meet(0, 1, for: .seconds(5), in: &hall)
    hall.nodes[0].engine.favour(by: hall.nodes[1].id, true)
    #expect(
      hall.nodes[0].engine.courier.favouredBy.count == 1024
        && hall.nodes[0].engine.courier.favouredBy.contains(hall.nodes[1].id))
    hall.nodes[0].engine.favour(by: hall.nodes[1].id, false)
    #expect(!hall.nodes[0].engine.courier.favouredBy.contains(hall.nodes[1].id))
  }

  @Test("A peer that announces 0 courier slots gets no envelope")
  func noPlaces() throws {
    var hall = CourierTests.apart(["ann", "cem"])
    hall.add(["bob"]) { $0.carries = 0 }
    try hall.tell("a letter", to: 1, as: 1, at: 0)
    CourierTests.meet(0, 2, in: &hall)
    #expect(hall.nodes[0].engine.peer(hall.nodes[2].id)?.courierPlaces == 0)
    #expect(hall.nodes[0].progress[1] == nil && hall.nodes[2].engine.counters.courier == CourierCounters())
  }

  @Test("A courier gets no more copies than it has slots for the giving node, and no copy is lost")
  func copies() throws {
    var hall = CourierTests.apart(["ann", "eve", "bob", "cem", "far"])
    for sender in [0, 1] {
      for number in UInt32(1)...2 { try hall.tell("from \(sender)", to: 4, as: number, at: sender) }
      CourierTests.meet(sender, 2, in: &hall)
    }
    for _ in 0..<2 {
      CourierTests.meet(2, 3, in: &hall)
      #expect(hall.nodes[2].engine.carried == 4 && hall.nodes[3].engine.carried == 2)
      #expect(hall.nodes[3].engine.counters.courier.tooManyOfDepositor == 0)
      // Eve, too, has received copies of Ann's envelopes.
      #expect(hall.nodes[2].engine.courier.desk.bag.envelopes.values.map(\.envelope.copies).sorted() == [1, 1, 4, 4])
    }
    // The copies also evict envelopes that Bob has deposited himself.
    try hall.tell("from bob", to: 4, as: 1, at: 2)
    CourierTests.meet(2, 3, in: &hall)
    #expect(hall.nodes[2].progress[1] == nil && hall.nodes[3].engine.counters.courier.tooManyOfDepositor == 0)
  }

  @Test("Receipts for strangers' envelopes leave a courier slot free for an own message")
  func receiptsLeaveRoom() throws {
    var hall = CourierTests.apart(["cem", "bob", "eva", "eve", "ann"])
    for (number, stranger) in [2, 3].enumerated() {
      try hall.tell("from \(stranger)", to: 0, as: UInt32(number + 1), at: stranger)
      CourierTests.meet(stranger, 1, in: &hall)
    }
    CourierTests.meet(1, 0, in: &hall)
    #expect(hall.nodes[0].told.count == 2)
    // A read receipt needs no second envelope, although the first receipt is settled.
    for (message, peer) in zip(hall.nodes[0].told, hall.nodes[0].toldFrom) {
      hall.handle(.read(message.id, from: peer), at: 0)
    }
    CourierTests.meet(0, 1, in: &hall)
    try hall.tell("my own letter", to: 4, as: 9, at: 0)
    CourierTests.meet(0, 1, in: &hall)
    let carried = hall.nodes[1].engine.courier.desk.bag.envelopes.values.filter { $0.depositor == hall.nodes[0].id }
    #expect(carried.count == 2 && hall.nodes[0].progress[9] == [.sent])
    CourierTests.meet(1, 4, in: &hall)
    #expect(hall.nodes[4].told.map(\.text) == ["my own letter"])
  }

  @Test("A mailbox announces its number of slots for each peer, and gets 8 envelopes")
  func mailbox() throws {
    var hall = CourierTests.apart(["ann", "cem"])
    hall.add(["bob"]) { $0.carries = 1000 }
    for number in UInt32(1)...8 { try hall.tell("letter \(number)", to: 1, as: number, at: 0) }
    CourierTests.meet(0, 2, in: &hall)
    #expect(hall.nodes[0].engine.peer(hall.nodes[2].id)?.courierPlaces == 50)
    #expect(hall.nodes[2].engine.carried == 8)
    CourierTests.meet(2, 1, in: &hall)
    #expect(hall.nodes[1].told.count == 8)
  }
}
