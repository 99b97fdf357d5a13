import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("The table of recently received packet keys")
struct RecentPacketsTests {
  private struct Key: RecentKey {
    let number: Int
    /// Many keys share a value of the filter, so the filter alone cannot tell them apart.
    var filterBits: UInt64 { UInt64(number % 1000) &* 0x9E37_79B9_7F4A_7C15 }
  }

  private func second(_ number: Int) -> Instant { .zero.advanced(by: .seconds(number)) }

  @Test("A packet key is known after it was inserted, and no other key is")
  func known() {
    var recent = RecentPackets<Key>(limit: 10, lifetime: .seconds(300))
    func see(_ number: Int, at seconds: Int) -> Bool { recent.see(Key(number: number), at: second(seconds)) }
    #expect(!see(1, at: 0))
    recent.insert(Key(number: 1), at: second(0))
    #expect(see(1, at: 1))
    // The filter reports the key as known; the table does not.
    #expect(!see(1001, at: 1))
  }

  @Test("A packet key is forgotten if it was not seen again for its lifetime of 300 s")
  func lifetime() {
    var recent = RecentPackets<Key>(limit: 10, lifetime: .seconds(300))
    func see(_ number: Int, at seconds: Int) -> Bool { recent.see(Key(number: number), at: second(seconds)) }
    recent.insert(Key(number: 1), at: second(0))
    #expect(see(1, at: 299))
    #expect(see(1, at: 598))
    #expect(!see(1, at: 898))
    #expect(recent.count == 0)
  }

  @Test("A full table of packet keys forgets the key that was seen least recently")
  func leastRecent() {
    var recent = RecentPackets<Key>(limit: 3, lifetime: .seconds(300))
    func see(_ number: Int, at seconds: Int) -> Bool { recent.see(Key(number: number), at: second(seconds)) }
    for number in 1...3 { recent.insert(Key(number: number), at: second(number)) }
    #expect(see(1, at: 4))
    recent.insert(Key(number: 4), at: second(5))
    #expect(recent.count == 3)
    #expect(!see(2, at: 6))
    for number in [1, 3, 4] { #expect(see(number, at: 6)) }
  }

  @Test("Of 20,000 inserted packet keys the last 10,000 are known")
  func full() {
    var recent = RecentPackets<PacketID>(limit: 10_000, lifetime: .seconds(300))
    let ids = (0..<20_000).map { number in
      PacketID(Packet(type: .message, timestamp: UInt64(number), sender: PeerID(rawValue: 1), payload: []))
    }
    for id in ids { recent.insert(id, at: second(1)) }
    #expect(recent.count == 10_000)
    let known = ids.map { recent.see($0, at: second(2)) }
    #expect(known.firstIndex(of: true) == 10_000 && known.count { $0 } == 10_000)
    // When all entries have expired, the next entry is alone.
    recent.insert(ids[0], at: second(400))
    #expect(recent.count == 1)
  }

  @Test("After 100,000 packet keys the table has the content of a plain ordered list", arguments: [1, 7, 100])
  func againstPlainTable(limit: Int) {
    var recent = RecentPackets<Key>(limit: limit, lifetime: .seconds(50))
    func see(_ number: Int, at seconds: Int) -> Bool { recent.see(Key(number: number), at: second(seconds)) }
    /// Keys with the moments at which they were last seen, the oldest first.
    var plain: [(key: Int, at: Int)] = []
    var state: UInt64 = 42
    for step in 0..<(100_000 / limit + 2000) {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let number = Int(state >> 33) % (3 * limit)
      plain.removeAll { step - $0.at >= 50 }
      let place = plain.firstIndex { $0.key == number }
      #expect(see(number, at: step) == (place != nil))
      if let place { plain.remove(at: place) }
      plain.append((number, step))
      if plain.count > limit { plain.removeFirst() }
      if place == nil { recent.insert(Key(number: number), at: second(step)) }
    }
  }
}
