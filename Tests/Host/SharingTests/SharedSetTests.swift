import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Sharing

@Suite("Advertising sets on a shared radio")
struct SharedSetTests {
  init() { EventLoop.shared.runInBackground() }

  private static let terms = AdvertisingTerms(.broadcast, leastTime: .seconds(4), longestWait: .seconds(30))
  private static let flags = AdvertisingData(flags: 6)
  private static func text(_ text: String) -> AdvertisingData { AdvertisingData(flags: 6, localName: text) }

  /// A sending and a receiving node on a simulated radio, with their events.
  @LoopActor
  private final class Scene {
    let time = VirtualTime()
    let air: AirSpace
    let node: AirRadio
    let sender: Tenant
    let listener: Tenant
    private(set) var heard: [AdvertisingPacket] = []
    private(set) var events: [AiringEvent] = []
    private var registration: Registration?

    init(_ controller: AirController = AirController(), loss: Double = 0) throws {
      air = AirSpace(scheduler: time, seed: 7, conditions: AirConditions(advertisingLoss: loss), controller: controller)
      node = air.addNode()
      sender = node.tenant(time)
      listener = air.addNode().tenant(time)
      registration = try listener.listen(for: [AdvertisingPattern(type: 0x01, bytes: [6])]) { [weak self] in
        self?.heard.append($0)
      }
    }

    func say(_ text: String, in set: any AdvertisingSet, for seconds: Int = 4) throws -> Registration {
      try set.air(SharedSetTests.text(text), for: .seconds(seconds)) { [weak self] in self?.events.append($0) }
    }

    /// The packets received since the last call.
    func takeHeard() -> [AdvertisingPacket] {
      defer { heard = [] }
      return heard
    }

    func takeEvents() -> [AiringEvent] {
      defer { events = [] }
      return events
    }

    var begin: Instant? {
      for case .began(let instant) in events { return instant }
      return nil
    }
  }

  @Test("An advertising set sends two messages for their whole times from one address, with flags between them")
  @LoopActor
  func conversation() async throws {
    let scene = try Scene()
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    let first = try scene.say("one", in: set)
    #expect(scene.events == [], "nothing is told from within the call")
    scene.time.advance(by: .seconds(6))
    let begin = try #require(scene.begin)
    #expect(scene.takeEvents() == [.began(begin), .ended(begin.advanced(by: .seconds(4)))])
    let second = try scene.say("two", in: set)
    scene.time.advance(by: .seconds(10))
    let heard = scene.takeHeard()
    let address = try #require(heard.first?.address)
    #expect(Set(heard.map(\.address)) == [address] && address != scene.node.address && address.value >> 46 == 0)
    #expect(heard.allSatisfy { $0.kind == .nonConnectable && $0.addressKind == .randomAddress })
    let flags = try Self.flags.encoded()
    for text in ["one", "two"] {
      let data = try Self.text(text).encoded()
      let moments = heard.filter { $0.data == data }.map(\.time)
      #expect(moments.count == 40)
      let (first, last) = (try #require(moments.first), try #require(moments.last))
      #expect(first.duration(to: last) <= .seconds(4))
    }
    #expect(heard.count { $0.data == flags } == 160 - 80)
    withExtendedLifetime((first, second)) {}
    set.close()
    scene.time.advance(by: .seconds(1))
    #expect(scene.takeHeard() == [])
  }

  @Test("An advertising set that sends nothing between messages uses a new address for each message")
  @LoopActor
  func silence() async throws {
    let scene = try Scene()
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: nil)
    var addresses: [BluetoothAddress] = []
    for text in ["one", "two", "three"] {
      let airing = try scene.say(text, in: set)
      scene.time.advance(by: .seconds(6))
      let heard = scene.takeHeard()
      #expect(heard.count == 40)
      addresses += Set(heard.map(\.address))
      withExtendedLifetime(airing) {}
    }
    #expect(Set(addresses).count == 3 && addresses.count == 3)
  }

  @Test("Two advertising sets that share one slot use different addresses")
  @LoopActor
  func twoSets() async throws {
    let scene = try Scene(AirController(advertisingSlots: 1))
    let one = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    let two = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    let first = try scene.say("one", in: one)
    scene.time.advance(by: .seconds(5))
    let before = Set(scene.takeHeard().map(\.address))
    let second = try scene.say("two", in: two)
    scene.time.advance(by: .seconds(5))
    let after = Set(scene.takeHeard().map(\.address))
    #expect(before.count == 1 && after.count == 1 && before != after)
    withExtendedLifetime((first, second)) {}
  }

  @Test("An advertising set between messages gives up its slot to a request, and then uses a new address")
  @LoopActor
  func givingWay() async throws {
    let scene = try Scene(AirController(advertisingSlots: 1))
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    var airing = try scene.say("one", in: set)
    scene.time.advance(by: .seconds(5))
    let before = Set(scene.takeHeard().map(\.address))
    let other = Advertisement(data: AdvertisingData(flags: 6, localName: "other"))
    var registration: Registration? = try scene.sender.advertise(
      other, AdvertisingTerms(.notify, leastTime: .zero, longestWait: .seconds(30)), for: nil)
    scene.time.advance(by: .seconds(1))
    #expect(Set(scene.takeHeard().map(\.address)) == [scene.node.address])
    registration = nil
    _ = scene.takeEvents()
    airing = try scene.say("two", in: set)
    scene.time.advance(by: .seconds(5))
    let after = Set(scene.takeHeard().filter { $0.kind == .nonConnectable }.map(\.address))
    #expect(after.count == 1 && after != before)
    #expect(scene.takeEvents().count == 2)
    withExtendedLifetime((airing, registration)) {}
  }

  @Test("A message of an advertising set that gets no slot within its longest wait is refused once")
  @LoopActor
  func refused() async throws {
    let time = VirtualTime()
    let driver = RecordingDriver()
    let radio = SharedRadio(driver: driver, scheduler: time)
    let tenant = radio.tenant("test", share: .nothing)
    let kiosk = try tenant.advertise(
      Advertisement(data: AdvertisingData(localName: "kiosk")),
      AdvertisingTerms(.person), for: nil)
    let notify = AdvertisingTerms(.notify)
    let set = try tenant.advertisingSet(notify, every: .milliseconds(100), resting: Self.flags)
    var events: [AiringEvent] = []
    let airing = try set.air(Self.text("~0"), for: .seconds(4)) { events.append($0) }
    time.advance(by: .milliseconds(29_999))
    driver.tellOnAir()
    #expect(events == [])
    time.advance(by: .seconds(60))
    #expect(events == [.refused(.noSlot(after: .seconds(30)))])
    #expect(driver.takeOrders() == ["slot 0: kiosk"])
    withExtendedLifetime((kiosk, airing)) {}
  }

  @Test("An advertising set's message that the driver never confirms times out, and one that it ends is cut short")
  @LoopActor
  func driversWord() async throws {
    let time = VirtualTime()
    let driver = RecordingDriver()
    let radio = SharedRadio(driver: driver, scheduler: time)
    let tenant = radio.tenant("test", share: .nothing)
    let set = try tenant.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    var events: [AiringEvent] = []
    var airing = try set.air(Self.text("~0"), for: .seconds(4)) { events.append($0) }
    time.advance(by: .seconds(31))
    #expect(events == [.refused(.timedOut("advertise"))])
    #expect(driver.takeOrders() == ["slot 0: ~0", "slot 0: empty"])
    events = []
    airing = try set.air(Self.text("~1"), for: .seconds(4)) { events.append($0) }
    time.advance(by: .seconds(1))
    driver.tellOnAir()
    let began = time.now
    time.advance(by: .milliseconds(1500))
    radio.onAir(nil, in: 0)
    #expect(events == [.began(began), .cutShort(after: .milliseconds(1500))])
    time.advance(by: .seconds(10))
    #expect(events.count == 2 && driver.takeOrders() == ["slot 0: ~1", "slot 0: empty"])
    withExtendedLifetime(airing) {}
  }

  @Test("A new message of an advertising set replaces the present one, which is cut short")
  @LoopActor
  func another() async throws {
    let scene = try Scene()
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    let first = try scene.say("one", in: set)
    scene.time.advance(by: .seconds(1))
    let begin = try #require(scene.begin)
    let now = scene.time.now
    let second = try scene.say("two", in: set)
    let third = try scene.say("three", in: set)
    scene.time.advance(by: .seconds(1))
    #expect(
      scene.takeEvents() == [
        .began(begin), .cutShort(after: begin.duration(to: now)),
        .refused(.refused("New data replaced this data before it was advertised.")), .began(now),
      ])
    #expect(Set(scene.takeHeard().map(\.address)).count == 1)
    withExtendedLifetime((first, second, third)) {}
  }

  @Test("A cancelled message of an advertising set is no longer sent and reports nothing more")
  @LoopActor
  func dropped() async throws {
    let scene = try Scene()
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    let airing = try scene.say("one", in: set)
    scene.time.advance(by: .seconds(1))
    _ = scene.takeHeard()
    #expect(scene.takeEvents().count == 1)
    airing.cancel()
    scene.time.advance(by: .seconds(10))
    let flags = try Self.flags.encoded()
    #expect(scene.takeEvents() == [] && scene.takeHeard().allSatisfy { $0.data == flags })
  }

  @Test("A dropped advertising set is no longer advertised, and a closed one refuses messages")
  @LoopActor
  func closed() async throws {
    let scene = try Scene()
    var set: (any AdvertisingSet)? = try scene.sender.advertisingSet(
      Self.terms, every: .milliseconds(100), resting: Self.flags)
    var airing: Registration? = try scene.say("one", in: try #require(set))
    scene.time.advance(by: .seconds(1))
    #expect(!scene.takeHeard().isEmpty)
    set = nil
    scene.time.advance(by: .seconds(1))
    #expect(!scene.takeHeard().isEmpty)
    airing = nil
    scene.time.advance(by: .seconds(1))
    #expect(scene.takeHeard() == [])
    let closed = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    closed.close()
    let error = caught(RadioError.self) { _ = try scene.say("two", in: closed) }
    #expect(error == .notReady("The advertisement set is closed."))
    withExtendedLifetime((set, airing)) {}
  }

  @Test("Without an adapter an advertising set refuses messages, and losing the adapter cuts its message short")
  @LoopActor
  func noAdapter() async throws {
    let scene = try Scene()
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: Self.flags)
    let airing = try scene.say("one", in: set)
    scene.time.advance(by: .seconds(1))
    let begin = try #require(scene.begin)
    scene.node.power = false
    scene.time.advance(by: .zero)
    #expect(scene.takeEvents() == [.began(begin), .cutShort(after: begin.duration(to: scene.time.now))])
    let error = caught(RadioError.self) { _ = try scene.say("two", in: set) }
    #expect(error == .notReady("The simulated adapter is switched off."))
    scene.node.power = true
    let again = try scene.say("three", in: set)
    scene.time.advance(by: .seconds(5))
    #expect(scene.takeEvents().count == 2)
    withExtendedLifetime((airing, again)) {}
  }

  @Test("A message that is too long for an advertising set is refused before it is sent")
  @LoopActor
  func tooLong() async throws {
    let scene = try Scene()
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: nil)
    let error = caught(RadioError.self) { _ = try scene.say(String(repeating: "n", count: 27), in: set) }
    #expect(error == .advertisementTooLong(bytes: 32, limit: 31))
    let resting = AdvertisingData(localName: String(repeating: "n", count: 30))
    let other = caught(RadioError.self) {
      _ = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(100), resting: resting)
    }
    #expect(other == .advertisementTooLong(bytes: 32, limit: 31))
  }

  @Test("On a lossy radio each receiver misses different advertising events")
  @LoopActor
  func loss() async throws {
    let scene = try Scene(loss: 0.25)
    var other = 0
    let second = scene.air.addNode().tenant(scene.time)
    let registration = try second.listen(for: []) { _ in other += 1 }
    let set = try scene.sender.advertisingSet(Self.terms, every: .milliseconds(20), resting: Self.flags)
    let airing = try scene.say("one", in: set, for: 100)
    scene.time.advance(by: .seconds(100))
    let heard = scene.takeHeard().count
    // 5,000 events, with a margin of eight standard deviations on either side.
    #expect((3500...4000).contains(heard) && (3500...4000).contains(other) && heard != other)
    withExtendedLifetime((registration, airing)) {}
  }

  @Test("Each receiver gets the packets that match its patterns, and the driver gets at most 16 patterns")
  @LoopActor
  func patterns() async throws {
    let driver = RecordingDriver()
    let radio = SharedRadio(driver: driver, scheduler: VirtualTime())
    let tenant = radio.tenant("test", share: .nothing)
    func pattern(_ byte: UInt8) -> AdvertisingPattern { AdvertisingPattern(type: 9, bytes: [byte]) }
    func packet(_ byte: UInt8) -> AdvertisingPacket {
      AdvertisingPacket(
        address: BluetoothAddress(1), addressKind: .randomAddress, kind: .unknown, rssi: nil, time: .zero,
        data: [2, 9, byte])
    }
    var (one, all): ([UInt8?], [UInt8?]) = ([], [])
    let first = try tenant.listen(for: [pattern(1), pattern(2)]) { one.append($0.data.last) }
    var second: Registration? = try tenant.listen(for: [pattern(2), pattern(3)]) { _ in }
    #expect(driver.takeOrders() == ["listen: none, 2 patterns", "listen: none, 3 patterns"])
    let many = (2...15).map { pattern($0) }
    let third = try tenant.listen(for: many + [pattern(1), pattern(16)]) { _ in }
    let error = caught(RadioError.self) { _ = try tenant.listen(for: [pattern(17)]) { _ in } }
    #expect(error == .notSupported("scan for more than 16 patterns"))
    third.cancel()
    second = try tenant.listen(for: []) { all.append($0.data.last) }
    #expect(driver.takeOrders().last == "listen: none, packets")
    for byte in 1...4 { radio.heard(packet(UInt8(byte))) }
    #expect(one == [1, 2] && all == [1, 2, 3, 4])
    second = nil
    #expect(driver.takeOrders() == ["listen: none, 2 patterns"])
    withExtendedLifetime((first, second)) {}
  }
}
