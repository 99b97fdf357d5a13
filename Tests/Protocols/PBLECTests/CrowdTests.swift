import Common
import Testing

@testable import PBLEC

@Suite("A crowd, and somebody who is a thousand")
struct CrowdTests {
  @Test("Of peers that nobody knows twenty are met in a second, and the rest of them are counted")
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

  @Test("Two hundred and fifty-six peers are remembered; when they are there, a new one is refused and they are served")
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
    // Whoever is silent for a minute makes room.
    stand.pass(55)
    for address in 1..<256 { _ = say(1, as: address) }
    stand.pass(5)
    let later = say(0, as: 1000)
    let another = say(0, as: 1001)
    #expect(later && !another)
  }

  @Test("Two hundred talk on beside a thousand new addresses a second, and each of their messages is heard")
  func spoofer() {
    var stand = FeedStand()
    let people = 0..<200
    // They come first: twenty in a second are met.
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

  @Test("The address may be any, and the signal too")
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
