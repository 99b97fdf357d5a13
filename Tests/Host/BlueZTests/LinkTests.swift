import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Operations on links")
struct LinkTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A subscriber gets every notified value in order, and values without a subscription or a link are dropped")
  @LoopActor
  func notifications() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.addDevice()
    let link = try await service.link()
    server.notify([0], of: Service.id(0xFE03), to: link)
    #expect(rig.radio.counters.droppedNotifications == 1)
    try await rig.fake.subscribe(Service.hear)
    for number in 1...50 as ClosedRange<UInt8> {
      while server.notify([number], of: Service.id(0xFE03), to: link).full == [link] {
        _ = try await rig.radio.told.first { $0 == .room(link) }
      }
    }
    _ = try await rig.fake.notified.first { $0.value == [50] }
    #expect(rig.fake.notified.all.map(\.value) == (1...50).map { [$0] })
    try await rig.fake.subscribe(Service.hear, false)
    server.notify([51], of: Service.id(0xFE03), to: link)
    server.notify([52], of: Service.id(0xFE02), to: link)
    #expect(rig.radio.counters.droppedNotifications == 3)
    try await rig.fake.subscribe(Service.hear)
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(link) }
    server.notify([53], of: Service.id(0xFE03), to: link)
    #expect(rig.radio.counters.droppedNotifications == 4)
    await #expect(throws: DBusError.self) { try await rig.fake.subscribe(Service.put) }
    server.close()
  }

  @Test("A client can read only the last notified value, also in parts by offset")
  @LoopActor
  func reading() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    rig.fake.addDevice()
    let link = try await service.link()
    await #expect(throws: DBusError(name: "org.bluez.Error.NotPermitted", message: "No value can be read.")) {
      try await rig.fake.read(Service.read)
    }
    server.notify([1, 2, 3], of: Service.id(0xFE04), to: link)
    #expect(try await rig.fake.read(Service.read) == [1, 2, 3])
    #expect(try await rig.fake.read(Service.read, offset: 2) == [3])
    #expect(try await rig.fake.read(Service.read, offset: 3) == [])
    await #expect(throws: DBusError.self) { try await rig.fake.read(Service.read, offset: 4) }
    server.notify([1], of: Service.id(0xFE03), to: link)
    await #expect(throws: DBusError.self) { try await rig.fake.read(Service.hear) }
    server.close()
  }

  @Test("A link can be cut although its peer never wrote")
  @LoopActor
  func silentPeer() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let device = rig.fake.addDevice()
    let told = try await rig.radio.told.first { if case .up = $0 { true } else { false } }
    guard case .up(let link, _, _) = told else { return }
    rig.driver.cut(link)
    _ = try await rig.radio.told.first { $0 == .down(link) }
    #expect(rig.fake.calls.all.last == "Disconnect \(device.lastElement)")
    // A closed link is not disconnected again.
    rig.driver.cut(link)
    try await rig.settle()
    #expect(rig.fake.calls.all.count { $0.hasPrefix("Disconnect") } == 1)
  }

  @Test("`disconnect` cuts a client's link")
  @LoopActor
  func disconnecting() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.addDevice()
    let link = try await service.link()
    await rig.fake.write([1], to: Service.put, from: device)
    server.disconnect(link)
    _ = try await service.events.first { $0 == .closed(link) }
    #expect(rig.fake.calls.all.last == "Disconnect \(device.lastElement)")
    // A link whose device bluetoothd does not know has ended already.
    await rig.fake.write([1], to: Service.put, from: rig.fake.devicePath("00:AA:02:00:00:09"))
    let ghost = try await service.link()
    server.disconnect(ghost)
    _ = try await service.events.first { $0 == .closed(ghost) }
    server.close()
  }

  @Test("Two applications share a link, and each gets only the writes to its own characteristics")
  @LoopActor
  func twoApplications() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let (first, second) = (Service(), Service())
    let server = try await rig.serve(first)
    let uuid = BluetoothUUID(short: 0xFE11)
    let other = rig.radio.serve(
      GATTApplication(services: [
        GATTService(
          uuid: BluetoothUUID(short: 0xFE10), characteristics: [GATTCharacteristic(uuid: uuid, properties: [.write])])
      ]), delegate: second)
    try await rig.fake.until { rig.fake.applications.last?[uuid.description] != nil }
    let device = rig.fake.addDevice()
    let link = try await first.link()
    #expect(try await second.link() == link)
    await rig.fake.write([1], to: uuid.description, from: device, mtu: 100)
    #expect(first.events.all.dropFirst() == [.changed(link, 100)])
    #expect(second.events.all.count == 3)
    other.close()
    rig.fake.setConnected(device, false)
    _ = try await first.events.first { $0 == .closed(link) }
    #expect(second.events.all.count == 3)
    server.close()
  }

  @Test("The number of clients is limited to 64, and further clients are refused")
  @LoopActor
  func tooMany() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    for number in 0..<70 {
      let device = rig.fake.devicePath(BluetoothAddress(UInt64(number)).description)
      let error = await rig.fake.write([1], to: Service.put, from: device, mtu: nil)
      #expect((error == nil) == (number < 64))
    }
    #expect(service.events.all.count == 128)
    #expect(rig.radio.counters.refusedLinks == 6)
    server.close()
  }

  @Test("A program other than bluetoothd cannot call, read or set the exported GATT objects")
  @LoopActor
  func strangers() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let advertisement = try await rig.advertise()
    let stranger = BusConnection(address: .address(rig.bus.address))
    stranger.connect()
    try await stranger.ready()
    let owner = try #require(rig.connection.uniqueName)
    let path = try #require(rig.fake.applications.first?[Service.put]?.path)
    let properties = "org.freedesktop.DBus.Properties"
    let characteristic = "org.bluez.GattCharacteristic1"
    let options: [String: DBusValue] = ["device": .objectPath(rig.fake.devicePath("00:AA:02:00:00:01"))]
    let attempts: [(ObjectPath, String, String, [DBusValue])] = [
      (path, characteristic, "WriteValue", [.bytes([1]), .options(options)]),
      (path, characteristic, "StartNotify", []),
      (path, characteristic, "ReadValue", [.options([:])]),
      (path, properties, "GetAll", [.string(characteristic)]),
      (path, properties, "Set", [.string(characteristic), .string("Handle"), .variant(.uint16(7))]),
      ("/org/earshot/gatt0", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", []),
      ("/org/earshot/adv0", "org.bluez.LEAdvertisement1", "Release", []),
    ]
    for (path, interface, method, arguments) in attempts {
      do throws(DBusError) {
        _ = try await stranger.call(owner, path, interface, method, arguments)
        Issue.record("\(method) was let through")
      } catch {
        #expect(error.is(.denied), "\(method)")
      }
    }
    #expect(rig.radio.counters.strangers == UInt64(attempts.count))
    #expect(service.events.all.isEmpty)
    // The radio does not intercept calls of other objects.
    #expect(try await stranger.call(owner, "/", "org.freedesktop.DBus.Peer", "Ping").isEmpty)
    stranger.close()
    server.close()
    advertisement.cancel()
  }
}
