import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Mesh peers that crashed and lost their sessions")
struct StaleSessionTests {
  @Test(
    "Texts both ways arrive within 1 s after each of five crashes of a peer, ten seconds apart", arguments: [0, 1])
  func crashes(crashing: Int) throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    var number: UInt32 = 0
    for life in 0..<5 {
      for (from, to) in [(0, 1), (1, 0)] {
        number += 1
        let text = "\(number) in life \(life)"
        try hall.tell(text, to: to, as: number, at: from)
        let since = hall.now
        let receiver = hall.nodes[to]
        hall.pass(.seconds(60)) { receiver.told.contains { $0.text == text } }
        #expect(since.duration(to: hall.now) < .seconds(1), "\(text) took \(since.duration(to: hall.now))")
      }
      hall.pass(.seconds(5))
      hall.restart(crashing)
      hall.connect(0, 1)
      hall.pass(.seconds(3))
    }
  }

  @Test("A text to a peer two hops away that has lost its session arrives within 2 s")
  func overHops() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    hall.connect(0, 1)
    hall.connect(1, 2)
    hall.pass(.seconds(30))
    try hall.tell("before", to: 2, as: 1, at: 0)
    hall.pass(.seconds(10))
    hall.restart(2)
    hall.connect(1, 2)
    hall.pass(.seconds(3))
    try hall.tell("after", to: 2, as: 2, at: 0)
    hall.pass(.seconds(2))
    #expect(hall.nodes[2].told.map(\.text) == ["before", "after"])
  }

  @Test("After the end of a peer's link its session is not used until the peer proves that it has it")
  func doubtful() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    let link = hall.connect(0, 1)
    hall.pass(.seconds(2))
    try hall.tell("first", to: 1, as: 1, at: 0)
    hall.pass(.seconds(3))
    let bob = hall.nodes[1].id
    #expect(hall.nodes[0].engine.hasSession(with: bob))
    hall.disconnect(link)
    #expect(!hall.nodes[0].engine.hasSession(with: bob))
    hall.connect(0, 1)
    hall.pass(.seconds(3))
    #expect(hall.nodes[0].engine.hasSession(with: bob))
    #expect(hall.nodes[0].engine.messages.sessions.counters.established == 1, "the session is the same")
  }
}
