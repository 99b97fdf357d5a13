import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("The timer table of a mesh node")
struct TimerTableTests {
  private static func seconds(_ number: Int) -> Instant { Instant.zero.advanced(by: .seconds(number)) }

  @Test("The first deadline of the timer table is the earliest of all timers")
  func first() {
    var timers = TimerTable()
    #expect(timers.first == nil)
    timers.set(.gossip, Self.seconds(3))
    timers.set(.relays, Self.seconds(2))
    timers.set(.files, Self.seconds(4))
    #expect(timers.first == Self.seconds(2))
  }

  @Test("If the earliest timer is postponed or removed, the next one becomes the first")
  func next() {
    var timers = TimerTable()
    timers.set(.gossip, Self.seconds(3))
    timers.set(.relays, Self.seconds(2))
    timers.set(.relays, Self.seconds(5))
    #expect(timers.first == Self.seconds(3))
    timers.set(.gossip, nil)
    #expect(timers.first == Self.seconds(5))
    timers.set(.relays, nil)
    #expect(timers.first == nil)
  }

  @Test("If two timers have equal deadlines, removing one leaves the other")
  func equal() {
    var timers = TimerTable()
    timers.set(.gossip, Self.seconds(3))
    timers.set(.relays, Self.seconds(3))
    timers.set(.gossip, nil)
    #expect(timers.first == Self.seconds(3))
  }

  @Test("A timer with a latest time is due from its deadline on, and wakes the node at its latest time")
  func latest() {
    var timers = TimerTable()
    timers.set(.relays, Self.seconds(2), latest: Self.seconds(5))
    #expect(timers.first == Self.seconds(5))
    #expect(timers.isDue(at: Self.seconds(2)))
    timers.set(.gossip, Self.seconds(4))
    #expect(timers.first == Self.seconds(4))
    timers.set(.gossip, nil)
    timers.set(.relays, Self.seconds(3))
    #expect(timers.first == Self.seconds(3) && !timers.isDue(at: Self.seconds(2)))
  }

  @Test("A timer is due exactly at its deadline")
  func due() {
    var timers = TimerTable()
    #expect(!timers.isDue(at: Self.seconds(1_000_000)))
    timers.set(.pings, Self.seconds(10))
    #expect(!timers.isDue(at: Self.seconds(10).advanced(by: .nanoseconds(-1))))
    #expect(timers.isDue(at: Self.seconds(10)))
    timers.removeAll()
    #expect(!timers.isDue(at: Self.seconds(10)) && timers.first == nil)
  }
}
