import Common
import Testing

@testable import PBLEC

@Suite("Crowds and random addresses in the broadcast channel")
struct CrowdTests {
  @Test("Twenty unknown peers are accepted in a second, and further ones are counted")
  func newPeers() {
    var stand = FeedStand()
    var heard = 0
    for address in 0..<100 {
      if stand.hear(0, "x", from: UInt64(address)) { heard += 1 }
    }
    #expect(heard == 20)
    #expect(stand.engine.counters[.tooManyNew] == 80)
    stand.pass(1)
    for address in 0..<100 {
      if stand.hear(0, "x", from: UInt64(address)) { heard += 1 }
    }
    #expect(heard == 40)
  }

  @Test("256 peers are remembered; a new one is refused, and messages of known ones are accepted")
  func full() {
    var stand = FeedStand()
    func say(_ digit: Int, as address: Int) -> Bool { stand.hear(digit, "x", from: UInt64(address)) }
    for address in 0..<256 {
      let isNew = say(0, as: address)
      stand.pass(0.05)
      #expect(isNew)
    }
    #expect(stand.engine.peersNearby == 256)
    let stranger = say(0, as: 1000)
    #expect(!stranger && stand.engine.counters[.noRoom] == 1)
    stand.pass(4)
    var served = 0
    for address in 0..<256 where say(1, as: address) { served += 1 }
    #expect(served == 256)
    // A peer that is idle for a minute may be evicted.
    stand.pass(55)
    for address in 1..<256 { _ = say(1, as: address) }
    stand.pass(5)
    let later = say(0, as: 1000)
    let another = say(0, as: 1001)
    #expect(later && !another)
  }

  @Test("Each message of 200 peers is delivered although 1,000 new addresses a second appear")
  func spoofer() {
    var stand = FeedStand()
    let people = 0..<200
    // The people arrive first: 20 new peers a second are accepted.
    for person in people {
      stand.hear(0, "hello", from: UInt64(person))
      stand.pass(0.051)
    }
    stand.pass(6)
    var (said, heard, address) = (0, 0, UInt64(1_000_000))
    for round in 1...20 {
      for person in people {
        said += 1
        if stand.hear(round % 10, "round \(round)", from: UInt64(person)) { heard += 1 }
        for _ in 0..<30 {
          stand.hear(0, "spoof", from: address)
          address += 1
        }
        stand.pass(0.03)
      }
    }
    #expect(said == 4000 && heard == said)
    #expect(stand.engine.peersNearby <= 256)
    #expect(stand.engine.counters[.noRoom] > 100_000)
  }

  @Test("Any Bluetooth address is accepted, and RSSI is clamped to a signed byte")
  func extremes() {
    var stand = FeedStand(followsAddresses: true)
    for (number, rssi) in [Int.min, Int.max, 0, -200].enumerated() {
      let isNew = stand.hear(number, "x\(number)", from: .max - UInt64(number), rssi: rssi)
      #expect(isNew)
    }
    let strengths = stand.engine.messages(after: 0, limit: 9).map(\.rssi)
    #expect(strengths == [-128, 127, 0, -128])
  }
}
