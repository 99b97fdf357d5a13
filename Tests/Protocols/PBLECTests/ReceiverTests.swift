import Common
import Testing

@testable import PBLEC

@Suite("Received broadcast messages: new, duplicate, late or too soon")
struct ReceiverTests {
  @Test("An equal broadcast text from two peers is two messages")
  func twoPeers() {
    var stand = FeedStand()
    let first = stand.hear(0, "hi", from: 1)
    let second = stand.hear(0, "hi", from: 2)
    #expect(first && second)
    let aliases = stand.engine.messages(after: 0, limit: 9).map(\.alias)
    #expect(Set(aliases).count == 2)
  }

  @Test("A repetition of a peer's last message is a duplicate, and its text with another digit is a new message")
  func duplicates() {
    var stand = FeedStand()
    stand.hear(0, "hi")
    let again = stand.hear(0, "hi")
    stand.pass(6)
    let next = stand.hear(1, "hi")
    #expect(!again && next)
    #expect(stand.engine.counters[.duplicate] == 1)
  }

  @Test("A repetition of one of the last five messages is late, and of the sixth last is new")
  func window() {
    var stand = FeedStand()
    for digit in 0..<6 {
      stand.hear(digit, "hi")
      stand.pass(6)
    }
    for digit in 1..<5 {
      let late = stand.hear(digit, "hi")
      #expect(!late)
    }
    #expect(stand.engine.counters[.late] == 4)
    let forgotten = stand.hear(0, "hi")
    #expect(forgotten)
  }

  @Test("The eleventh message with one text has the first digit again, and is new")
  func eleventh() {
    var stand = FeedStand()
    var heard = 0
    for number in 0..<30 {
      for _ in 0..<5 where stand.hear(number % 10, "same") { heard += 1 }
      stand.pass(6)
    }
    #expect(heard == 30)
  }

  @Test("A message with the same digit and another text is new")
  func sameDigit() {
    var stand = FeedStand()
    stand.hear(2, "ok")
    stand.pass(6)
    let other = stand.hear(2, "other")
    #expect(other)
  }

  @Test("A message within 4 s of the previous one's first report is dropped, and reported as new afterwards")
  func tooFast() {
    var stand = FeedStand()
    stand.hear(0, "one")
    stand.pass(3.9)
    let early = stand.hear(1, "two")
    stand.pass(0.1)
    let due = stand.hear(1, "two")
    #expect(!early && due)
    #expect(stand.engine.counters[.tooFast] == 1)
  }

  @Test("Of a peer that changes its text every 100 ms one message is accepted in 4 s")
  func restless() {
    var stand = FeedStand()
    var heard = 0
    for number in 0..<1200 {
      if stand.hear(number % 10, "text \(number)") { heard += 1 }
      stand.pass(0.1)
    }
    #expect(heard == 30)
  }

  @Test("A duplicate, late copy, stop or empty name restarts the 60 s after which its peer is forgotten")
  func activity() {
    let signs: [[UInt8]] = [
      FeedStand.name("~1two"), FeedStand.name("~0one"), FeedStand.name("~1"), FeedStand.name(""),
      FeedStand.name("~2fast"),
    ]
    for sign in signs {
      var stand = FeedStand()
      stand.hear(0, "one")
      stand.pass(59)
      stand.hear(1, "two")
      stand.pass(3)
      stand.hear(sign, from: 1)
      stand.pass(59.9)
      stand.handle(.timer)
      #expect(stand.engine.peersNearby == 1)
      stand.pass(0.1)
      stand.handle(.timer)
      #expect(stand.engine.peersNearby == 0)
      #expect(stand.engine.deadline == nil)
    }
  }

  @Test("A peer that was not received for 60 s is new when it returns, with or without a timer event")
  func pruned() {
    for hasTimer in [true, false] {
      var stand = FeedStand()
      stand.hear(0, "hi")
      stand.pass(59.9)
      let before = stand.hear(0, "hi")
      stand.pass(60)
      if hasTimer { stand.handle(.timer) }
      let after = stand.hear(0, "hi")
      #expect(!before && after)
    }
  }

  @Test("A packet without a broadcast message creates no peer")
  func noPeers() {
    var stand = FeedStand()
    for data in [
      FeedStand.name("~1"), FeedStand.name(""), FeedStand.name("x"), [9], NotifyBeacon(major: 1, minor: 1).bytes,
    ] {
      stand.hear(data, from: 5)
    }
    #expect(stand.engine.peersNearby == 0)
    #expect(stand.engine.counters.stops == 1)
  }

  @Test("A peer with a new address is a new peer, and its current message is reported again")
  func addressChange() {
    var stand = FeedStand()
    stand.hear(4, "hi", from: 1)
    stand.pass(1)
    let again = stand.hear(4, "hi", from: 2)
    #expect(again)
  }

  @Test("If address changes are followed, equal messages within 4 s and 6 dB are one message")
  func followed() {
    func again(
      after seconds: Double, digit: Int = 4, text: String = "hi", first: Int? = -60, rssi: Int? = -54
    ) -> Bool {
      var stand = FeedStand(followsAddresses: true)
      stand.hear(4, "hi", from: 1, rssi: first)
      stand.pass(seconds)
      return stand.hear(digit, text, from: 2, rssi: rssi)
    }
    #expect(!again(after: 1))
    #expect(!again(after: 4, rssi: -66))
    #expect(again(after: 4.1))
    #expect(again(after: 1, rssi: -53))
    #expect(again(after: 1, rssi: -67))
    // Without a signal strength, the other conditions decide.
    #expect(!again(after: 1, rssi: nil))
    #expect(!again(after: 1, first: nil))
    #expect(again(after: 4.1, first: nil, rssi: nil))
    #expect(again(after: 1, digit: 5))
    #expect(again(after: 1, text: "ho"))
    var stand = FeedStand(followsAddresses: true)
    stand.hear(4, "hi", from: 1)
    stand.pass(1)
    stand.hear(4, "hi", from: 2)
    let copy = stand.hear(4, "hi", from: 2)
    // The new address counts from the message's first reception under the old one.
    stand.pass(3)
    let next = stand.hear(5, "next", from: 2)
    #expect(!copy && next)
    #expect(stand.engine.counters[.moved] == 1 && stand.engine.counters[.duplicate] == 1)
  }

  @Test(
    "A peer has the same alias throughout a run, even after it was forgotten",
    arguments: [false, true])
  func aliases(isForgotten: Bool) {
    func alias(_ stand: inout FeedStand) -> Int? {
      stand.hear(0, "hi", from: 77)
      return stand.engine.messages(after: 0, limit: 1000).last?.alias
    }
    var (one, other) = (FeedStand(seed: 1), FeedStand(seed: 2))
    let first = alias(&one)
    one.pass(100)
    if isForgotten { one.handle(.timer) }
    let second = alias(&one)
    let elsewhere = alias(&other)
    #expect(first != nil && first == second && first != elsewhere)
  }

  @Test("No two remembered peers have the same alias")
  func distinctAliases() {
    var stand = FeedStand()
    for round in 0..<40 {
      for number in 0..<256 {
        stand.hear(0, "x", from: UInt64(round * 1000 + number))
        stand.pass(0.05)
      }
      let aliases = stand.engine.messages(after: 0, limit: 1000).suffix(256).map(\.alias)
      #expect(aliases.count == 256 && Set(aliases).count == 256)
      stand.pass(60)
    }
  }

  @Test("The broadcast channel stores 1,000 messages, and lists those after a given number, oldest first")
  func feed() {
    var stand = FeedStand()
    for number in 1...2500 {
      stand.hear(0, "\(number)", from: UInt64(number))
      stand.pass(1)
    }
    func texts(_ after: UInt64, _ limit: Int) -> [String] {
      stand.engine.messages(after: after, limit: limit).map(\.text.string)
    }
    #expect(texts(0, 5000) == (1501...2500).map(String.init))
    #expect(texts(1498, 3) == ["1501", "1502", "1503"])
    #expect(texts(1502, 2) == ["1503", "1504"])
    #expect(texts(2499, 9) == ["2500"])
    #expect(texts(2500, 9) == [] && texts(.max, 9) == [] && texts(0, 0) == [])
    let last = stand.engine.messages(after: 2499, limit: 1).first
    #expect(last?.number == 2500 && last?.rssi == -60 && last?.time == stand.time.milliseconds)
  }
}
