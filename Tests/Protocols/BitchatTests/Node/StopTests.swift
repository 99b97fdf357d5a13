import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("A stopped mesh node")
struct StopTests {
  @Test("A stopped node has no deadline, whenever it was stopped and whatever events arrive later")
  func noDeadline() throws {
    for seed in UInt64(1)...3 {
      for moment in 0..<60 {
        var hall = MeshHall(seed: seed)
        hall.add(["ann", "bob", "cem"])
        hall.connect(0, 1)
        hall.connect(1, 2)
        hall.pass(.milliseconds(500))
        try hall.tell("hello", to: 2, as: 1, at: 0)
        _ = hall.say("line", at: 2)
        try hall.sendFile([UInt8](repeating: 7, count: 3000), at: 1)
        try hall.ping(2, at: 1)
        hall.pass(.milliseconds(Int64(moment * 40)))
        // The clock stops exactly at the deadline.
        guard let due = hall.nodes[1].engine.deadline else { continue }
        hall.leap(hall.now.duration(to: max(due, hall.now)))
        hall.handle(.stop, at: 1)
        #expect(hall.nodes[1].engine.deadline == nil)
        hall.handle(.timer, at: 1)
        hall.handle(.linkClosed(LinkID(1)), at: 1)
        hall.handle(.announce, at: 1)
        hall.inject([1, 2, 3], on: LinkID(2), to: 1)
        #expect(hall.nodes[1].engine.deadline == nil)
        // The engine starts again.
        hall.handle(.start, at: 1)
        #expect(hall.nodes[1].engine.deadline != nil)
      }
    }
  }
}
