import Air
import Common
import Loop
import PBLEC
import Radio
import TestSupport
import Testing

@testable import Broadcast

@Suite("200 senders and an attacker with random addresses", .serialized)
struct FeedCrowdTests {
  init() { EventLoop.shared.runInBackground() }

  private static let people = 200
  /// Number of packets per message. At the real rate a message is sent in 40 packets.
  private static let copies = Extent.of(4, all: 40)
  /// Messages per person: ten minutes of them.
  private static let rounds = Extent.of(10, all: 100)

  /// Simulates 6 s in which each of the senders sends one message, and the attacker sends messages from 6,000
  /// addresses.
  @LoopActor
  private static func round(
    _ plaza: Plaza, _ number: Int, spoofed: inout UInt64, isSpoofed: Bool, strangers: Range<Int>
  ) {
    let step = Duration.microseconds(Int64(4_000_000 / copies))
    for copy in 0..<copies {
      for person in 0..<people { plaza.hear("~\(number % 10)round \(number)", from: UInt64(0xA_0000 + person)) }
      // Several new peers send one message each.
      for stranger in strangers { plaza.hear("~0newcomer", from: UInt64(0xC_0000 + stranger)) }
      let isLast = copy == copies - 1
      let share = isSpoofed ? 6000 / copies + (isLast ? 6000 % copies : 0) : 0
      for _ in 0..<share {
        plaza.hear("~1spoof \(spoofed % 7)", from: 0x3F00_0000_0000 + spoofed)
        spoofed += 1
      }
      plaza.time.advance(by: isLast ? .seconds(6) - step * (copies - 1) : step)
    }
  }

  @Test(
    "Beside an attacker, 99 of 100 broadcast messages of known peers arrive, and memory stays constant"
  )
  @LoopActor
  func crowd() throws {
    let plaza = Plaza()
    plaza.air.conditions.advertisingLoss = 0.02
    let stall = plaza.add()
    var spoofed: UInt64 = 0
    // The senders become known before the attack begins, at 20 new peers a second.
    for _ in 0..<12 {
      for person in 0..<Self.people { plaza.hear("~9hello", from: UInt64(0xA_0000 + person)) }
      plaza.time.advance(by: .seconds(1))
    }
    #expect(stall.service.peersNearby == Self.people)
    let heap = HeapInUse.bytes
    var (delivered, newcomers) = (0, 0)
    var last = stall.service.messages(after: 0, limit: 1000).last?.number ?? 0
    for number in 0..<Self.rounds {
      let strangers = number * 5..<number * 5 + 5
      Self.round(plaza, number, spoofed: &spoofed, isSpoofed: true, strangers: strangers)
      for message in stall.service.messages(after: last, limit: 1000) {
        if message.text.string == "round \(number)" { delivered += 1 }
        if message.text.string == "newcomer" { newcomers += 1 }
        last = message.number
      }
      #expect(stall.service.peersNearby <= Limits.peers)
    }
    let said = Self.people * Self.rounds
    #expect(Double(delivered) >= 0.99 * Double(said), "\(delivered) of \(said)")
    print(
      "feed: \(delivered) of \(said) messages of known peers, \(newcomers) of \(Self.rounds * 5) newcomers got through")
    #expect(stall.count("PeersFull") > 1000)
    guard Extent.isWhole, let heap, let now = HeapInUse.bytes else { return }
    print("feed: heap \(heap) bytes before, \(now) after")
    #expect(now <= heap + 8 << 20)
  }
}
