import Bytes
import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Private messages that later ones overtake")
struct OvertakenTests {
  /// Noise packets that were sent, and those that were lost.
  private final class Air {
    var sent: [[UInt8]] = []
    var lost: [[UInt8]] = []
    var loses: ([UInt8], _ from: Int) -> Bool = { _, _ in false }
  }

  private let air = Air()

  /// Ann and Bob, neighbours who have a session.
  private func pair() throws -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    try hall.tell("first", to: 1, as: 1, at: 0)
    hall.pass(.seconds(3))
    hall.passes = { [air] bytes, from, _ in
      guard bytes[1] == MessageType.noiseEncrypted.rawValue else { return true }
      if from == 0 { air.sent.append(bytes) }
      guard air.loses(bytes, from) else { return true }
      air.lost.append(bytes)
      return false
    }
    return hall
  }

  @Test(
    "A lost message is sent again after 2 s once a later one is acknowledged, and each is shown once"
  )
  func lost() throws {
    var hall = try pair()
    air.loses = { _, from in from == 0 }
    for number in UInt32(2)...10 { try hall.tell("lost \(number)", to: 1, as: number, at: 0) }
    air.loses = { _, _ in false }
    try hall.tell("arrives", to: 1, as: 11, at: 0)
    hall.pass(Outbox.overtakenPause - .milliseconds(100))
    #expect(hall.nodes[1].told.map(\.text) == ["first", "arrives"])
    #expect(air.sent.count == 10)
    hall.pass(.milliseconds(200))
    #expect(hall.nodes[1].told.map(\.text) == ["first", "arrives"] + (2...10).map { "lost \($0)" })
    for number in UInt32(2)...11 { #expect(hall.nodes[0].progress[number]?.last == .delivered) }
    hall.pass(Outbox.firstPause * 2)
    #expect(hall.nodes[1].told.count == 11)
    #expect(air.sent.count == 19)
  }

  @Test("A lost piece of a long text is sent again alone when a later piece is acknowledged")
  func piece() throws {
    var hall = try pair()
    air.loses = { [air] _, from in from == 0 && air.sent.count == 2 }
    try hall.tell(String(repeating: "long ", count: 200), to: 1, as: 2, at: 0)
    let pieces = air.sent.count
    #expect(pieces == 4)
    hall.pass(Outbox.overtakenPause + .milliseconds(100))
    #expect(hall.nodes[0].progress[2]?.last == .delivered)
    #expect(air.sent.count == pieces + 1)
  }

  @Test("A message that never arrives is sent early once per attempt, however many later ones are acknowledged")
  func once() throws {
    var hall = try pair()
    // Only the long message's packet has 512 bytes.
    air.loses = { bytes, from in from == 0 && bytes.count > 300 }
    try hall.tell(String(repeating: "x", count: 250), to: 1, as: 2, at: 0)
    var number: UInt32 = 3
    func talk(until end: Duration, _ hall: inout MeshHall) throws {
      let begin = hall.now
      while begin.duration(to: hall.now) < end {
        try hall.tell("short", to: 1, as: number, at: 0)
        number += 1
        hall.pass(.milliseconds(500))
      }
    }
    try talk(until: .seconds(16), &hall)
    #expect(air.lost.count == 2)
    // The next scheduled retry, and one more.
    try talk(until: .seconds(24), &hall)
    #expect(air.lost.count == 4)
    #expect(hall.nodes[0].progress[2] == [.sent])
    // The session answers all other messages, so it is not replaced.
    #expect(hall.nodes[0].engine.messages.sessions.counters.recoveries == 0)
  }

  @Test("Receipts that arrive out of order within 2 s cause no retransmission")
  func receipts() throws {
    var hall = try pair()
    air.loses = { [air] _, from in from == 1 && air.lost.isEmpty }
    try hall.tell("one", to: 1, as: 2, at: 0)
    hall.pass(.milliseconds(300))
    try hall.tell("two", to: 1, as: 3, at: 0)
    hall.pass(Outbox.overtakenPause - .milliseconds(400))
    #expect(hall.nodes[0].progress[3]?.last == .delivered)
    #expect(hall.nodes[0].progress[2]?.last == .sent)
    hall.inject(air.lost[0], on: LinkID(1), to: 0)
    #expect(hall.nodes[0].progress[2]?.last == .delivered)
    hall.pass(Outbox.firstPause * 2)
    #expect(air.sent.count == 2)
  }

  @Test("An acknowledgement from another peer, or of an earlier message, causes no early retransmission")
  func others() throws {
    var hall = try pair()
    hall.add(["cem"])
    hall.connect(0, 2)
    hall.pass(.seconds(2))
    try hall.tell("hello", to: 2, as: 2, at: 0)
    hall.pass(.seconds(2))
    try hall.tell("arrives", to: 1, as: 3, at: 0)
    air.loses = { _, from in from == 0 }
    try hall.tell("is lost", to: 1, as: 4, at: 0)
    air.loses = { _, _ in false }
    try hall.tell("to somebody else", to: 2, as: 5, at: 0)
    let sent = air.sent.count
    hall.pass(.seconds(10))
    #expect(hall.nodes[0].progress[5]?.last == .delivered)
    #expect(hall.nodes[0].progress[4]?.last == .sent)
    #expect(air.sent.count == sent)
  }
}
