import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Sharing

@Suite("Advertisements, scans and connections on a shared radio")
struct SharedAirTimeTests {
  private typealias House = SharedRadioTests.House

  init() { EventLoop.shared.runInBackground() }

  private static func advertisement(_ name: String) -> Advertisement {
    Advertisement(data: AdvertisingData(localName: name))
  }

  // MARK: Advertising

  @Test("An advertisement waits for the registration of its own application, and not of other applications")
  @LoopActor
  func waitsForItsOwn() async throws {
    let house = House()
    let (kiosk, chat) = (try #require(house.kioskServer), try #require(house.chatServer))
    let first = try house.kiosk.advertise(Self.advertisement("kiosk"), AdvertisingTerms(), for: kiosk)
    house.turn()
    #expect(house.driver.takeOrders() == [])
    house.radio.applicationChanged(chat.id, isServed: true)
    house.turn()
    #expect(house.driver.takeOrders() == [])
    house.radio.applicationChanged(kiosk.id, isServed: true)
    house.turn()
    #expect(house.driver.takeOrders() == ["slot 0: kiosk"])
    house.radio.applicationChanged(kiosk.id, isServed: false)
    house.turn()
    #expect(house.driver.takeOrders() == ["slot 0: empty"])
    first.cancel()
  }

  @Test("Replacing an advertisement twice in one loop iteration changes it once, and equal data changes nothing")
  @LoopActor
  func exchange() async throws {
    let house = House()
    var registration = try house.chat.advertise(Self.advertisement("one"))
    house.turn()
    #expect(house.driver.takeOrders() == ["slot 0: one"])
    registration.cancel()
    registration = try house.chat.advertise(Self.advertisement("two"))
    house.turn()
    #expect(house.driver.takeOrders() == ["slot 0: two"])
    registration.cancel()
    registration = try house.chat.advertise(Self.advertisement("two"))
    house.turn()
    #expect(house.driver.takeOrders() == [])
    registration.cancel()
    house.turn()
    #expect(house.driver.takeOrders() == ["slot 0: empty"])
  }

  @Test("Two advertisements share one slot alternately; with two slots each has its own")
  @LoopActor
  func turns() async throws {
    let house = House()
    let both = [
      try house.chat.advertise(Self.advertisement("one")), try house.kiosk.advertise(Self.advertisement("two")),
    ]
    house.time.advance(by: .milliseconds(4500))
    #expect(house.driver.takeOrders() == ["slot 0: one", "slot 0: two", "slot 0: one"])
    house.driver.advertisingSlots = 2
    house.radio.advertisingSlotsChanged()
    house.turn()
    #expect(house.driver.takeOrders() == ["slot 1: two"])
    house.time.advance(by: .seconds(60))
    #expect(house.driver.takeOrders() == [])
    withExtendedLifetime(both) {}
  }

  @Test("An advertisement that is too long is refused before it is sent")
  @LoopActor
  func tooLong() async throws {
    let house = House()
    let error = caught(RadioError.self) {
      _ = try house.chat.advertise(Self.advertisement(String(repeating: "n", count: 30)))
    }
    #expect(error == .advertisementTooLong(bytes: 32, limit: 31))
    house.turn()
    #expect(house.driver.takeOrders() == [])
  }

  // MARK: Scanning

  @Test("The driver scans for the services of all running scans, and stops when no scan is left")
  @LoopActor
  func listening() async throws {
    let house = House()
    var heard: [ScanEvent] = []
    let first = try house.kiosk.scan(for: [BluetoothUUID(short: 1)]) { heard.append($0) }
    let second = try house.chat.scan(for: [BluetoothUUID(short: 2)]) { _ in }
    house.turn()
    #expect(house.driver.takeOrders() == ["listen: 1", "listen: 2"])
    let packets = try house.chat.listen(for: []) { _ in }
    second.cancel()
    #expect(house.driver.takeOrders() == ["listen: 2, packets", "listen: 1, packets"])
    let scanResult = ScanResult(address: BluetoothAddress(5), serviceUUIDs: [BluetoothUUID(short: 1)], serviceData: [])
    house.radio.heard(scanResult)
    house.time.advance(by: .seconds(40))
    #expect(heard == [.sighted(scanResult), .lost(BluetoothAddress(5))])
    house.radio.heard(scanResult)
    house.radio.statusChanged(RadioStatus(.waiting))
    #expect(heard.last == .lost(BluetoothAddress(5)) && heard.count == 4)
    house.radio.heard(scanResult)
    house.radio.forgot(BluetoothAddress(5))
    house.radio.forgot(BluetoothAddress(6))
    #expect(heard.last == .lost(BluetoothAddress(5)) && heard.count == 6)
    // No scan result is left to be lost later.
    house.time.advance(by: .seconds(40))
    #expect(heard.count == 6)
    first.cancel()
    packets.cancel()
    #expect(house.driver.takeOrders() == ["listen: none, packets", "listen to nothing"])
    house.radio.heard(scanResult)
    #expect(heard.count == 6)
  }

  @Test(
    "Received advertising packets are delivered unchanged, and a driver that cannot receive them refuses the request")
  @LoopActor
  func packets() async throws {
    let house = House()
    let packet = AdvertisingPacket(
      address: BluetoothAddress(5), addressKind: .randomAddress, kind: .connectable, rssi: -70, time: .zero,
      data: [2, 1, 6])
    var seen: [AdvertisingPacket] = []
    let registration = try house.chat.listen(for: []) { seen.append($0) }
    house.radio.heard(packet)
    house.radio.heard(packet)
    #expect(seen == [packet, packet])
    registration.cancel()
    house.radio.heard(packet)
    #expect(seen.count == 2)
    house.driver.deafness = "It is deaf."
    let error = caught(RadioError.self) { _ = try house.chat.listen(for: []) { _ in } }
    #expect(error == .notReady("It is deaf."))
  }

  // MARK: Connecting

  @Test("Operations on a connection attempt that waits are stored and executed in order")
  @LoopActor
  func queue() async throws {
    let house = House()
    let first = try house.chat.connect(to: BluetoothAddress(1)) { _ in }
    var events: [LinkEvent] = []
    let second = try house.chat.connect(to: BluetoothAddress(2)) { events.append($0) }
    second.exchangeMTU(200)
    second.discover()
    let id = CharacteristicID(service: BluetoothUUID(short: 1), characteristic: BluetoothUUID(short: 2))
    let isTakenEarly = second.streamNow([7], to: id)
    #expect(!isTakenEarly, "there is nothing yet that takes it")
    house.turn()
    #expect(house.driver.takeOrders() == ["connect to 00:00:00:00:00:01"])
    house.driver.links[0].handler(.disconnected(reason: "gone"))
    house.time.advance(by: .milliseconds(500))
    #expect(house.driver.takeOrders() == ["connect to 00:00:00:00:00:02", "MTU 200", "discover"])
    house.radio.linkUp(DriverLink(id: house.driver.links[1].id, address: BluetoothAddress(2), since: .zero))
    house.driver.links[1].handler(.connected)
    #expect(events == [.connected] && second.id == LinkID(1001))
    let areTaken = [second.streamNow([7], to: id), second.streamNow([0], to: id)]
    #expect(areTaken == [true, false])
    #expect(house.driver.takeOrders() == ["stream [7]", "stream [0]"])
    second.disconnect()
    #expect(house.driver.takeOrders() == ["cut 1001"])
    house.radio.linkDown(LinkID(1001))
    house.driver.links[1].handler(.disconnected(reason: "Disconnected."))
    #expect(events == [.connected, .disconnected(reason: "Disconnected.")])
    withExtendedLifetime(first) {}
  }

  @Test("A connection attempt that is cancelled while it waits ends without being made")
  @LoopActor
  func givenUpInTime() async throws {
    let house = House()
    let first = try house.chat.connect(to: BluetoothAddress(1)) { _ in }
    var events: [LinkEvent] = []
    let second = try house.chat.connect(to: BluetoothAddress(2)) { events.append($0) }
    second.disconnect()
    #expect(events == [])
    house.turn()
    #expect(events == [.disconnected(reason: "Disconnected.")])
    house.driver.links[0].handler(.disconnected(reason: "gone"))
    house.time.advance(by: .seconds(5))
    #expect(house.driver.takeOrders() == ["connect to 00:00:00:00:00:01"])
    withExtendedLifetime(first) {}
  }

  @Test("A connection attempt of higher priority preempts a running one, which ends with the reason")
  @LoopActor
  func priority() async throws {
    let house = House()
    var events: [LinkEvent] = []
    let first = try house.chat.connect(to: BluetoothAddress(1)) { events.append($0) }
    let second = try house.kiosk.connect(to: BluetoothAddress(2)) { _ in }
    #expect(house.driver.takeOrders() == ["connect to 00:00:00:00:00:01", "disconnect 1000"])
    house.driver.links[0].handler(.disconnected(reason: "Disconnected."))
    #expect(events == [.disconnected(reason: "Another service preempted the connection attempt.")])
    house.time.advance(by: .milliseconds(500))
    #expect(house.driver.takeOrders() == ["connect to 00:00:00:00:00:02"])
    withExtendedLifetime((first, second)) {}
  }

  @Test("Without an adapter a connection attempt is refused")
  @LoopActor
  func noAdapter() async throws {
    let house = House()
    house.driver.status = RadioStatus(.waiting, reason: "There is no Bluetooth adapter.")
    let error = caught(RadioError.self) { _ = try house.chat.connect(to: BluetoothAddress(1)) { _ in } }
    #expect(error == .notReady("There is no Bluetooth adapter."))
  }

  @Test("A link that carries GATT both ways stays up for the peer when our connection ends")
  @LoopActor
  func bothDirections() async throws {
    let house = House()
    house.driver.linkUp(1000)
    try house.write([1], to: house.chatServer, on: 1000)
    var events: [LinkEvent] = []
    let link = try house.chat.connect(to: BluetoothAddress(0xC000_0000_0000 | 1000)) { events.append($0) }
    house.driver.links[0].handler(.connected)
    #expect(link.id == LinkID(1000))
    link.disconnect()
    house.turn()
    #expect(events == [.connected, .disconnected(reason: "Disconnected.")])
    #expect(!house.driver.takeOrders().contains("cut 1000"))
    // The driver's connection is released at once, not at the end of the link.
    #expect(house.driver.dropped == [LinkID(1000)] && link.id == LinkID(1000))
    house.driver.links[0].handler(.disconnected(reason: "Disconnected."))
    #expect(events.count == 2)
    house.chatServer?.disconnect(LinkID(1000))
    #expect(house.driver.takeOrders() == ["cut 1000"])
  }

  @Test(
    "Cancelling a connection attempt whose peer has connected also ends the driver's attempt"
  )
  @LoopActor
  func crossing() async throws {
    let house = House()
    var events: [LinkEvent] = []
    let first = try house.chat.connect(to: BluetoothAddress(0xC000_0000_0000 | 1000)) { events.append($0) }
    let second = try house.chat.connect(to: BluetoothAddress(2)) { _ in }
    house.turn()
    house.driver.linkUp(1000)
    try house.write([1], to: house.chatServer, on: 1000)
    _ = house.driver.takeOrders()
    first.disconnect()
    #expect(house.driver.takeOrders() == ["disconnect 1000"])
    house.driver.links[0].handler(.disconnected(reason: "Disconnected."))
    #expect(events == [.disconnected(reason: "Disconnected.")])
    house.time.advance(by: .milliseconds(500))
    #expect(house.driver.takeOrders() == ["connect to 00:00:00:00:00:02"])
    withExtendedLifetime(second) {}
  }

  @Test("The end of a lost link is reported with the driver's reason")
  @LoopActor
  func lost() async throws {
    let house = House()
    var events: [LinkEvent] = []
    let link = try house.chat.connect(to: BluetoothAddress(0xC000_0000_0000 | 1000)) { events.append($0) }
    house.turn()
    house.driver.linkUp(1000)
    house.driver.links[0].handler(.connected)
    _ = house.driver.takeOrders()
    house.radio.linkDown(LinkID(1000))
    house.turn()
    // If the service ends its connection during the attempt, the driver's attempt is ended, because no link exists yet.
    link.disconnect()
    #expect(house.driver.takeOrders() == ["disconnect 1000"])
    house.driver.links[0].handler(.disconnected(reason: "It was lost."))
    house.turn()
    #expect(events == [.connected, .disconnected(reason: "It was lost.")])
    withExtendedLifetime(link) {}
  }
}
