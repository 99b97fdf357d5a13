import Common
import Testing

@testable import Bitchat

@Suite("The places that couriers have for one sender")
struct CourierPlacesTests {
  @Test("A letter goes to no courier that would take a part of it")
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

  @Test("A courier that has all letters that it takes gets no other, until one of them is known to have arrived")
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

  @Test("That letters have arrived frees no place at the couriers that did not bring them")
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
    // Until the letters' time is over.
    hall.leap(.seconds(25 * 3600))
    try hall.tell("letter 4", to: 2, as: 4, at: 0)
    CourierTests.meet(0, 3, in: &hall)
    #expect(hall.nodes[3].engine.courier.bag.envelopes.count == 1)
  }

  @Test("What couriers have is known after a restart")
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

  @Test("However many in made-up names call the node a favourite, who is near is known to")
  func manyFavourers() throws {
    var hall = CourierTests.apart(["ann", "bob"])
    for number in UInt64(1)...1100 { hall.nodes[0].engine.favour(by: PeerID(rawValue: number), true) }
    CourierTests.meet(0, 1, for: .seconds(5), in: &hall)
    hall.nodes[0].engine.favour(by: hall.nodes[1].id, true)
    #expect(hall.nodes[0].engine.favouredBy.count == 1024 && hall.nodes[0].engine.favouredBy.contains(hall.nodes[1].id))
    hall.nodes[0].engine.favour(by: hall.nodes[1].id, false)
    #expect(!hall.nodes[0].engine.favouredBy.contains(hall.nodes[1].id))
  }

  @Test("Who carries no letters says so, and is given none")
  func noPlaces() throws {
    var hall = CourierTests.apart(["ann", "cem"])
    hall.add(["bob"]) { $0.carries = 0 }
    try hall.tell("a letter", to: 1, as: 1, at: 0)
    CourierTests.meet(0, 2, in: &hall)
    #expect(hall.nodes[0].engine.peer(hall.nodes[2].id)?.courierPlaces == 0)
    #expect(hall.nodes[0].progress[1] == nil && hall.nodes[2].engine.counters.courier == CourierCounters())
  }

  @Test("A courier gets copies of as many letters as it has places for the node that gives them, and no copy is lost")
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
      // Of ann's letters eve has got copies as well.
      #expect(hall.nodes[2].engine.courier.bag.envelopes.values.map(\.envelope.copies).sorted() == [1, 1, 4, 4])
    }
    // They take the places of bob's own letters, too.
    try hall.tell("from bob", to: 4, as: 1, at: 2)
    CourierTests.meet(2, 3, in: &hall)
    #expect(hall.nodes[2].progress[1] == nil && hall.nodes[3].engine.counters.courier.tooManyOfDepositor == 0)
  }

  @Test("However many letters strangers send by a courier, their receipts leave it a place for an own letter")
  func receiptsLeaveRoom() throws {
    var hall = CourierTests.apart(["cem", "bob", "eva", "eve", "ann"])
    for (number, stranger) in [2, 3].enumerated() {
      try hall.tell("from \(stranger)", to: 0, as: UInt32(number + 1), at: stranger)
      CourierTests.meet(stranger, 1, in: &hall)
    }
    CourierTests.meet(1, 0, in: &hall)
    #expect(hall.nodes[0].told.count == 2)
    // What is read needs no second place, though nothing is left to be told of the first receipt.
    for (message, peer) in zip(hall.nodes[0].told, hall.nodes[0].toldFrom) {
      hall.handle(.read(message.id, from: peer), at: 0)
    }
    CourierTests.meet(0, 1, in: &hall)
    try hall.tell("my own letter", to: 4, as: 9, at: 0)
    CourierTests.meet(0, 1, in: &hall)
    let carried = hall.nodes[1].engine.courier.bag.envelopes.values.filter { $0.depositor == hall.nodes[0].id }
    #expect(carried.count == 2 && hall.nodes[0].progress[9] == [.sent])
    CourierTests.meet(1, 4, in: &hall)
    #expect(hall.nodes[4].told.map(\.text) == ["my own letter"])
  }

  @Test("A mailbox says how many letters of one peer it carries, and gets as many")
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
