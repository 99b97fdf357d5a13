import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Sharing

@Suite("Use of advertising slots")
struct AdvertisingUseTests {
  init() { EventLoop.shared.runInBackground() }

  private static func advertisement(_ name: String) -> Advertisement {
    Advertisement(data: AdvertisingData(localName: name))
  }

  @Test("A service's advertisement counts as sent when the driver confirms it, and foreign slots are counted")
  @LoopActor
  func use() async throws {
    let house = SharedRadioTests.House()
    house.driver.foreignAdvertisements = 2
    let low = try house.chat.advertise(Self.advertisement("chat"), AdvertisingTerms(.network), for: nil)
    house.turn()
    #expect(house.kiosk.advertisingUse == AdvertisingUse(used: 2, places: 3, onAir: [], waiting: []))
    house.driver.tellOnAir()
    #expect(house.kiosk.advertisingUse == AdvertisingUse(used: 3, places: 3, onAir: ["chat"], waiting: []))
    let high = [
      try house.kiosk.advertise(Self.advertisement("one"), AdvertisingTerms(.person), for: nil),
      try house.kiosk.advertise(Self.advertisement("two"), AdvertisingTerms(.person), for: nil),
    ]
    house.turn()
    house.driver.tellOnAir()
    #expect(
      house.chat.advertisingUse == AdvertisingUse(used: 3, places: 3, onAir: ["kiosk"], waiting: ["chat", "kiosk"]))
    withExtendedLifetime((low, high)) {}
  }

  @Test("A service is notified once when it shares its advertising slot, and once 30 s after the sharing has ended")
  @LoopActor
  func sharing() async throws {
    let house = SharedRadioTests.House()
    var told: [Bool] = []
    let watch = house.chat.onStatus { told.append($0.traits.advertisesAll) }
    let low = try house.chat.advertise(Self.advertisement("chat"), AdvertisingTerms(.network), for: nil)
    house.turn()
    #expect(house.chat.status.traits.advertisesAll)
    let high = try house.kiosk.advertise(Self.advertisement("kiosk"), AdvertisingTerms(.person), for: nil)
    house.time.advance(by: .seconds(60))
    #expect(told == [false])
    #expect(house.driver.takeOrders().count > 8, "it has its turns")
    high.cancel()
    house.time.advance(by: .seconds(29))
    #expect(told == [false])
    house.time.advance(by: .seconds(2))
    #expect(told == [false, true])
    withExtendedLifetime((watch, low)) {}
  }

  @Test("A broadcast message that arrives during a radio inhibit waits and is sent afterwards")
  @LoopActor
  func serving() async throws {
    let house = SharedRadioTests.House()
    let set = try house.chat.advertisingSet(AdvertisingTerms(.broadcast), every: .milliseconds(100), resting: nil)
    let quiet = house.kiosk.askForQuiet()
    var events: [AiringEvent] = []
    let airing = try set.air(Self.advertisement("hello").data, for: .seconds(4)) { events.append($0) }
    house.time.advance(by: .seconds(20))
    #expect(house.driver.takeOrders() == [] && house.chat.advertisingUse.waiting == ["chat"])
    quiet.cancel()
    house.turn()
    #expect(house.driver.takeOrders() == ["slot 0: hello"])
    house.driver.tellOnAir()
    #expect(events == [.began(house.time.now)])
    withExtendedLifetime(airing) {}
  }

  @Test(
    "A broadcast message whose slot is taken at its end is complete, and one whose slot is taken earlier is cut short",
    arguments: [(Duration.seconds(4), false), (.milliseconds(3999), true)])
  @LoopActor
  func placeTaken(after time: Duration, isCutShort: Bool) async throws {
    let house = SharedRadioTests.House()
    let set = try house.chat.advertisingSet(AdvertisingTerms(.broadcast), every: .milliseconds(100), resting: nil)
    let begin = house.time.now
    // This runs before the timer of the message at the same moment.
    let taking = house.time.schedule(at: begin.advanced(by: time)) { house.driver.delegate?.onAir(nil, in: 0) }
    var events: [AiringEvent] = []
    let airing = try set.air(Self.advertisement("hello").data, for: .seconds(4)) { events.append($0) }
    house.turn()
    house.driver.tellOnAir()
    house.time.advance(by: .seconds(5))
    let end: AiringEvent = isCutShort ? .cutShort(after: time) : .ended(begin.advanced(by: time))
    #expect(events == [.began(begin), end])
    withExtendedLifetime((taking, airing)) {}
  }

  @Test("A broadcast message that is cancelled while it waits for a slot is never sent and reports nothing")
  @LoopActor
  func takenBack() async throws {
    let house = SharedRadioTests.House()
    let high = try house.kiosk.advertise(Self.advertisement("kiosk"), AdvertisingTerms(.person), for: nil)
    let set = try house.chat.advertisingSet(AdvertisingTerms(.broadcast), every: .milliseconds(100), resting: nil)
    var events: [AiringEvent] = []
    let first = try set.air(Self.advertisement("one").data, for: .seconds(4)) { events.append($0) }
    // The second replaces the first, which is notified at the end of this loop iteration.
    let second = try set.air(Self.advertisement("two").data, for: .seconds(4)) { events.append($0) }
    first.cancel()
    house.turn()
    second.cancel()
    #expect(house.chat.advertisingUse.waiting == [])
    high.cancel()
    house.time.advance(by: .seconds(60))
    #expect(house.driver.takeOrders() == ["slot 0: kiosk", "slot 0: empty"])
    #expect(events == [])
  }

  @Test("The time for which a broadcast message is sent begins when the driver confirms it")
  @LoopActor
  func lateDriver() async throws {
    let house = SharedRadioTests.House()
    let first = try house.kiosk.advertise(Self.advertisement("kiosk"), AdvertisingTerms(.person), for: nil)
    house.time.advance(by: .seconds(1))
    let terms = AdvertisingTerms(.broadcast, leastTime: .seconds(4), longestWait: .seconds(5))
    let set = try house.chat.advertisingSet(terms, every: .milliseconds(100), resting: nil)
    var events: [AiringEvent] = []
    let airing = try set.air(Self.advertisement("hello").data, for: .seconds(4)) { events.append($0) }
    house.time.advance(by: .milliseconds(4900))
    first.cancel()
    house.time.advance(by: .seconds(2))
    // The message has its slot, so its longest wait expires without a refusal.
    #expect(events == [])
    house.driver.tellOnAir()
    let begin = house.time.now
    let second = try house.kiosk.advertise(Self.advertisement("again"), AdvertisingTerms(.person), for: nil)
    house.time.advance(by: .milliseconds(3900))
    #expect(house.driver.takeOrders() == ["slot 0: kiosk", "slot 0: hello"])
    house.time.advance(by: .milliseconds(200))
    #expect(house.driver.takeOrders() == ["slot 0: again"])
    #expect(events == [.began(begin), .ended(begin.advanced(by: .seconds(4)))])
    withExtendedLifetime((airing, second)) {}
  }

  @Test("A broadcast message whose slot is taken before the driver confirms it is sent later")
  @LoopActor
  func displacedUnseen() async throws {
    let house = SharedRadioTests.House()
    let terms = AdvertisingTerms(.notify, leastTime: .zero, longestWait: .seconds(30))
    let set = try house.chat.advertisingSet(terms, every: .milliseconds(100), resting: nil)
    var events: [AiringEvent] = []
    let airing = try set.air(Self.advertisement("beacon").data, for: .seconds(60)) { events.append($0) }
    house.turn()
    let high = try house.kiosk.advertise(Self.advertisement("kiosk"), AdvertisingTerms(.person), for: nil)
    house.turn()
    house.driver.tellOnAir()
    #expect(house.driver.takeOrders() == ["slot 0: beacon", "slot 0: kiosk"])
    #expect(events == [] && house.chat.advertisingUse.waiting == ["chat"])
    house.time.advance(by: .seconds(5))
    high.cancel()
    house.turn()
    house.driver.tellOnAir()
    #expect(house.driver.takeOrders() == ["slot 0: beacon"] && events == [.began(house.time.now)])
    withExtendedLifetime(airing) {}
  }

  @Test(
    "A broadcast message that the driver never confirms is refused after its longest wait"
  )
  @LoopActor
  func displacedUnseenForGood() async throws {
    let house = SharedRadioTests.House()
    let terms = AdvertisingTerms(.notify, leastTime: .zero, longestWait: .seconds(30))
    let set = try house.chat.advertisingSet(terms, every: .milliseconds(100), resting: nil)
    var events: [AiringEvent] = []
    let airing = try set.air(Self.advertisement("beacon").data, for: .seconds(60)) { events.append($0) }
    house.time.advance(by: .seconds(5))
    let high = try house.kiosk.advertise(Self.advertisement("kiosk"), AdvertisingTerms(.person), for: nil)
    house.turn()
    house.driver.tellOnAir()
    house.time.advance(by: .milliseconds(24_900))
    #expect(events == [])
    house.time.advance(by: .milliseconds(200))
    #expect(events == [.refused(.noSlot(after: .seconds(30)))])
    #expect(house.chat.advertisingUse.waiting == [])
    withExtendedLifetime((airing, high)) {}
  }

  @Test("If a new message of an advertising set is refused, what the set advertises between messages stays in its slot")
  @LoopActor
  func refusedAtRest() async throws {
    let house = SharedRadioTests.House()
    let terms = AdvertisingTerms(.broadcast, leastTime: .seconds(4), longestWait: .seconds(5))
    let set = try house.chat.advertisingSet(
      terms, every: .milliseconds(100), resting: AdvertisingData(localName: "rest"))
    var events: [AiringEvent] = []
    var airing = try set.air(Self.advertisement("one").data, for: .seconds(4)) { events.append($0) }
    house.turn()
    house.driver.tellOnAir()
    house.time.advance(by: .seconds(4))
    let quiet = house.kiosk.askForQuiet()
    airing = try set.air(Self.advertisement("two").data, for: .seconds(4)) { events.append($0) }
    house.time.advance(by: .seconds(10))
    #expect(events.last == .refused(.noSlot(after: .seconds(5))) && events.count == 3)
    #expect(house.driver.takeOrders() == ["slot 0: one", "slot 0: rest"])
    withExtendedLifetime((airing, quiet)) {}
  }
}
