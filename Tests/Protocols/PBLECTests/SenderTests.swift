import Common
import Testing

@testable import PBLEC

@Suite("Sending broadcast messages: 4 s of message, 2 s of gap")
struct SenderTests {
  @Test("Broadcast messages begin at least 6 s apart, and each digit is the previous one plus one")
  func pace() throws {
    var stand = FeedStand()
    var said: [(packet: MessagePacket, at: Instant)] = []
    for round in 0..<4 {
      for number in 0..<3 { try stand.send("\(round) \(number)") }
      said += stand.sayAll()
    }
    #expect(said.count == 12)
    for (one, next) in zip(said, said.dropFirst()) {
      #expect(one.at.duration(to: next.at) >= .seconds(6))
      #expect(next.packet.digit == (one.packet.digit + 1) % 10)
    }
    #expect(said.map(\.packet.text.string) == (0..<4).flatMap { round in (0..<3).map { "\(round) \($0)" } })
  }

  @Test("After the engine is stopped it has no deadline, even if a peer and a queued message existed")
  func stopped() throws {
    var stand = FeedStand()
    try stand.send("x")
    stand.hear(1, "hello")
    try stand.notify()
    let due = try #require(stand.engine.deadline)
    stand.now = due
    stand.handle(.stop)
    #expect(stand.engine.deadline == nil)
    stand.pass(3600)
    stand.handle(.timer)
    #expect(stand.engine.deadline == nil)
  }

  @Test("A broadcast text that is sent again has the next digit")
  func equalTexts() throws {
    var stand = FeedStand()
    for _ in 0..<3 { try stand.send("again") }
    let digits = stand.sayAll().map(\.packet.digit)
    #expect(Set(digits).count == 3)
  }

  @Test("The first digit of a broadcast sender is random")
  func firstDigit() throws {
    var digits: Set<UInt8> = []
    for seed in 0..<200 {
      var stand = FeedStand(seed: UInt64(seed))
      try stand.send("x")
      if let digit = stand.takeTransmission()?.packet.digit { digits.insert(digit) }
    }
    #expect(digits == Set(0...9))
  }

  @Test("Four broadcast messages are queued, and a fifth is refused with the seconds to wait")
  func queue() throws {
    var stand = FeedStand()
    for number in 0..<4 { try stand.send("\(number)") }
    #expect(stand.engine.waiting == 4)
    expectFull(&stand, 4)
    let numberAsked = stand.takeTransmission()
    let (number, _) = try #require(numberAsked)
    stand.handle(.began(number))
    stand.pass(1.5)
    expectFull(&stand, 3)
    stand.pass(2.5)
    stand.handle(.ended(number, wasCutShort: false))
    try stand.send("5")
    #expect(stand.engine.waiting == 4)
    // The queue is full for 6 s: the rest of the gap of 2 s, and a message of 4 s.
    expectFull(&stand, 6)
    #expect(stand.engine.counters.sent == 1)
  }

  private func expectFull(_ stand: inout FeedStand, _ seconds: Int, line: Int = #line) {
    let refusal = stand.refusedSend("x")
    #expect(refusal == .queueFull(seconds: seconds), "line \(line)")
  }

  @Test("In the gap between messages nothing is advertised, and no stop is sent")
  func silence() throws {
    var stand = FeedStand()
    try stand.send("one")
    try stand.send("two")
    let firstAsked = stand.takeTransmission()
    let (first, _) = try #require(firstAsked)
    stand.handle(.began(first))
    #expect(stand.engine.deadline == nil)
    stand.pass(4)
    let atEnd = stand.handle(.ended(first, wasCutShort: false))
    #expect(atEnd == [.sent(first)])
    stand.pass(1.9)
    let done1 = stand.handle(.timer)
    #expect(done1 == [])
    stand.pass(0.1)
    #expect(stand.engine.deadline == stand.now)
    stand.handle(.timer)
    let second = stand.takeTransmission()
    #expect(second?.packet.text.string == "two")
  }

  @Test("A broadcast message that the radio does not begin within 35 s is dropped, and the next gets its digit")
  func noPlace() throws {
    var stand = FeedStand()
    try stand.send("one")
    try stand.send("two")
    let firstAsked = stand.takeTransmission()
    let (first, packet) = try #require(firstAsked)
    stand.pass(34.9)
    let done2 = stand.handle(.timer)
    #expect(done2 == [])
    stand.pass(0.1)
    #expect(stand.engine.deadline == stand.now)
    let actions = stand.handle(.timer)
    #expect(Array(actions.prefix(2)) == [.silence, .dropped(first, .noPlace)])
    let secondAsked = stand.takeTransmission()
    let (second, next) = try #require(secondAsked)
    #expect(next.digit == packet.digit && next.text.string == "two")
    // The radio may report the end itself, and late reports about a message that has ended change nothing.
    let done3 = stand.handle(.began(first))
    #expect(done3 == [])
    let done4 = stand.handle(.ended(first, wasCutShort: false))
    #expect(done4 == [])
    let done5 = stand.handle(.refused(second, .noRadio("Gone.")))
    #expect(done5 == [.dropped(second, .noRadio("Gone."))])
    #expect(stand.engine.counters.notSent == 2)
  }

  @Test("A broadcast message that was cut short is reported as such and uses up its digit")
  func cutShort() throws {
    var stand = FeedStand()
    try stand.send("one")
    let numberAsked = stand.takeTransmission()
    let (number, packet) = try #require(numberAsked)
    stand.handle(.began(number))
    stand.pass(1)
    let done6 = stand.handle(.ended(number, wasCutShort: true))
    #expect(done6 == [.dropped(number, .cutShort)])
    try stand.send("two")
    let said = stand.sayAll()
    let next = try #require(said.first)
    #expect(next.packet.digit == (packet.digit + 1) % 10)
  }

  @Test("A broadcast message can be cancelled while queued, requested or sent, and an unknown number is refused")
  func cancel() throws {
    var stand = FeedStand()
    let (first, second) = (try stand.send("one"), try stand.send("two"))
    let waiting = try stand.engine.cancel(second, at: stand.now)
    #expect(waiting == [.dropped(second, .cancelled)])
    let again = stand.refusedCancel(second)
    #expect(again == .unknownMessage)
    let asking = try stand.engine.cancel(first, at: stand.now)
    #expect(asking == [.silence, .dropped(first, .cancelled)])
    stand.actions = []
    let third = try stand.send("three")
    stand.handle(.began(third))
    stand.pass(1)
    let onAir = try stand.engine.cancel(third, at: stand.now)
    #expect(onAir == [.silence, .dropped(third, .cancelled)])
    // The minimum interval of 6 s counts from the start of the message, however it ended.
    stand.actions = []
    try stand.send("four")
    let early0 = stand.takeTransmission()
    #expect(early0?.number == nil)
    stand.pass(4.9)
    stand.handle(.timer)
    let early1 = stand.takeTransmission()
    #expect(early1?.number == nil)
    stand.pass(0.1)
    stand.handle(.timer)
    let due = stand.takeTransmission()
    #expect(due?.number != nil)
    let unknown = stand.refusedCancel(99)
    #expect(unknown == .unknownMessage)
  }

  @Test("A broadcast sender's address stays for 60 s after its last message")
  func conversation() throws {
    var stand = FeedStand()
    #expect(stand.engine.deadline == nil)
    try stand.send("one")
    _ = stand.sayAll()
    stand.pass(30)
    try stand.send("two")
    _ = stand.sayAll()
    stand.pass(59.9)
    let done7 = stand.handle(.timer)
    #expect(done7 == [])
    stand.pass(0.1)
    #expect(stand.engine.deadline == stand.now)
    let done8 = stand.handle(.timer)
    #expect(done8 == [.leaveAir])
    #expect(stand.engine.deadline == nil)
  }

  @Test("Stopping the broadcast engine drops all queued messages and ends advertising")
  func stop() throws {
    var stand = FeedStand()
    let numbers = [try stand.send("one"), try stand.send("two")]
    let expected = numbers.map { BroadcastEngine.Action.dropped($0, .cancelled) } + [.leaveAir]
    let done9 = stand.handle(.stop)
    #expect(done9 == expected)
    #expect(stand.engine.waiting == 0 && stand.engine.deadline == nil)
  }
}
