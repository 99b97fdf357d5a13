import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Serving GATT applications through bluetoothd")
struct ServingTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("An application is registered with services, flags and handles, and without Acquire properties")
  @LoopActor
  func registration() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let server = try await rig.serve(Service())
    let application = try #require(rig.fake.applications.first)
    #expect(application.path == "/org/earshot/gatt0")
    #expect(application[Service.put]?.service == Service.uuid.description)
    #expect(application[Service.put]?.flags == ["write-without-response", "write"])
    #expect(application[Service.hear]?.flags == ["notify", "indicate"])
    #expect(application[Service.read]?.flags == ["read", "notify"])
    // The handle that bluetoothd assigned can be read.
    let handle = try #require(application[Service.hear]?.handle)
    try await rig.settle()
    let path = try #require(application[Service.hear]?.path)
    let read = try await rig.fake.property("Handle", of: path, "org.bluez.GattCharacteristic1", at: application.owner)
    #expect(read == .uint16(handle) && handle != 0)
    server.close()
  }

  @Test("Closing or dropping a server unregisters its application")
  @LoopActor
  func handles() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    server.close()
    try await rig.fake.until { rig.fake.applications.isEmpty }
    _ = try await rig.serve(service)
    // The second registration is not retained.
    try await rig.fake.until { rig.fake.applications.isEmpty }
    #expect(
      rig.fake.calls.all == [
        "RegisterApplication hci0 /org/earshot/gatt0", "UnregisterApplication hci0 /org/earshot/gatt0",
        "RegisterApplication hci0 /org/earshot/gatt0", "UnregisterApplication hci0 /org/earshot/gatt0",
      ])
  }

  @Test("A connecting client is reported as a link, with its MTU, before its writes")
  @LoopActor
  func writes() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.addDevice("00:AA:02:00:00:01")
    let link = try await service.link()
    #expect(await rig.fake.write([1, 2, 3], to: Service.put, from: device, mtu: 185) == nil)
    #expect(await rig.fake.write([], to: Service.put, from: device, mtu: 517) == nil)
    #expect(await rig.fake.write([4], to: Service.put, from: device, mtu: nil) == nil)
    #expect(await rig.fake.write([5], to: Service.put, from: device, mtu: 9) == nil)
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(link) }
    let put = Service.id(0xFE02)
    #expect(
      service.events.all == [
        .opened(link, "00:AA:02:00:00:01"), .changed(link, 185), .written(link, put, [1, 2, 3]), .changed(link, 517),
        .written(link, put, []), .written(link, put, [4]), .written(link, put, [5]), .closed(link),
      ])
    server.close()
  }

  @Test("The first write of a device whose connection was not signalled opens a link")
  @LoopActor
  func unannounced() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.devicePath("00:AA:02:00:00:09")
    #expect(await rig.fake.write([1], to: Service.put, from: device, mtu: nil) == nil)
    let link = try await service.link()
    #expect(
      service.events.all == [.opened(link, "00:AA:02:00:00:09"), .written(link, Service.id(0xFE02), [1])])
    // The later signal about the connection does not open a second link.
    rig.fake.addDevice("00:AA:02:00:00:09")
    try await rig.settle()
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(link) }
    #expect(service.events.all.count == 3)
    server.close()
  }

  @Test("A link whose connection is never signalled is closed after a timeout")
  @LoopActor
  func ghost() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    await rig.fake.write([1], to: Service.put, from: rig.fake.devicePath("00:AA:02:00:00:09"))
    let link = try await service.link()
    rig.time.advance(by: .seconds(5))
    _ = try await service.events.first { $0 == .closed(link) }
    server.close()
  }

  @Test("A device that disconnects and reconnects has a new link")
  @LoopActor
  func again() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.addDevice()
    let first = try await service.link()
    rig.fake.setConnected(device, false)
    rig.fake.setConnected(device, true)
    // Two opposite changes in one loop iteration cancel out; each alone is a change.
    try await rig.settle()
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(first) }
    rig.fake.setConnected(device, true)
    let second = try await service.link()
    #expect(second != first)
    rig.fake.removeDevice(device)
    _ = try await service.events.first { $0 == .closed(second) }
    server.close()
  }

  @Test("A paired device, or one connected before the start, becomes a client with its first write")
  @LoopActor
  func paired() async throws {
    let rig = try await Rig.ready {
      $0.addAdapter()
    }
    defer { rig.close() }
    let service = Service()
    let early = rig.fake.addDevice("00:AA:02:00:00:01")
    try await rig.settle()
    let server = try await rig.serve(service)
    let paired = rig.fake.addDevice("00:AA:02:00:00:02", isPaired: true)
    try await rig.settle()
    #expect(service.events.all.isEmpty)
    #expect(await rig.fake.write([1], to: Service.put, from: paired, mtu: nil) == nil)
    #expect(await rig.fake.write([2], to: Service.put, from: early, mtu: nil) == nil)
    let addresses = service.events.all.compactMap { if case .opened(_, let address) = $0 { address } else { nil } }
    #expect(addresses == ["00:AA:02:00:00:02", "00:AA:02:00:00:01"])
    server.close()
  }

  @Test("Each ATT error of the service is sent to bluetoothd as the matching BlueZ error")
  @LoopActor
  func refusals() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.addDevice()
    let answers: [(ATTError, String)] = [
      (.busy, "Failed"), (.writeNotPermitted, "NotPermitted"), (.invalidLength, "InvalidValueLength"),
      (.invalidOffset, "InvalidOffset"), (.unlikely, "Unlikely"), (.insufficientResources, "InsufficientResources"),
    ]
    for (refusal, name) in answers {
      service.refusal = refusal
      let error = await rig.fake.write([1], to: Service.put, from: device)
      #expect(error?.name == "org.bluez.Error." + name)
      if refusal == .busy { #expect(error?.message == "0x80") }
    }
    #expect(rig.radio.counters.refusedWrites == UInt64(answers.count))
    server.close()
  }

  @Test("A malformed write of bluetoothd is refused and does not reach the service")
  @LoopActor
  func impossibleWrites() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.devicePath("00:AA:02:00:00:01")
    let value = [UInt8](repeating: 1, count: 513)
    func name(_ error: DBusError?) -> String? { error?.name.split(separator: ".").last.map(String.init) }
    #expect(name(await rig.fake.write(value, to: Service.put, from: device)) == "InvalidValueLength")
    #expect(name(await rig.fake.write([1], to: Service.put, from: device, offset: 1)) == "InvalidOffset")
    let odd: [String: DBusValue] = ["offset": .string("x")]
    #expect(name(await rig.fake.write([1], to: Service.put, from: device, options: odd)) == "InvalidOffset")
    #expect(name(await rig.fake.write([1], to: Service.hear, from: device)) == "NotPermitted")
    #expect(name(await rig.fake.write([1], to: Service.put, from: nil)) == "Unlikely")
    #expect(name(await rig.fake.write([1], to: Service.put, from: "/org/bluez/hci0")) == "Unlikely")
    #expect(
      name(await rig.fake.write([1], to: Service.put, from: rig.fake.devicePath("00:AA:02:00:00:01", on: "hci1")))
        == "Unlikely")
    let question: [String: DBusValue] = ["prepare-authorize": .bool(true)]
    #expect(await rig.fake.write([1], to: Service.put, from: device, options: question) == nil)
    #expect(service.events.all.isEmpty)
    #expect(await rig.fake.write(Array(value.dropLast()), to: Service.put, from: device, offset: 0) == nil)
    #expect(service.events.all.count == 3)
    server.close()
  }

  @Test("200 writes of two clients arrive in the order of each client, and all are answered")
  @LoopActor
  func order() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let devices = [rig.fake.addDevice("00:AA:02:00:00:01"), rig.fake.addDevice("00:AA:02:00:00:02")]
    let links = [try await service.link(), try await service.link()]
    let answers = Mailbox<UInt8>()
    for number in 0..<100 as Range<UInt8> {
      for device in devices {
        rig.fake.write([number], to: Service.put, from: device) { error in answers.put(error == nil ? number : 255) }
      }
      // A bus permits 128 pending replies per program.
      if number == 49 { _ = try await answers.first { _ in answers.all.count == 100 } }
    }
    _ = try await answers.first { _ in answers.all.count == 200 }
    #expect(answers.all == (0..<100).flatMap { [$0, $0] })
    for link in links {
      let values = service.events.all.compactMap { event -> UInt8? in
        if case .written(link, _, let value) = event { value.first } else { nil }
      }
      #expect(values == Array(0..<100))
    }
    server.close()
  }
}
