import Air
import BlueZ
import Common
import DBus
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Values for unsubscribed clients by raw HCI")
struct UnsubscribedTests {
  init() { EventLoop.shared.runInBackground() }

  static let first = "00:AA:02:00:00:01"
  static let second = "00:AA:02:00:00:02"

  /// A radio with raw HCI that serves the sample application, whose values reach no other client.
  @LoopActor
  private func rig(_ raw: FakeRawHCI, _ service: Service) async throws -> (Rig, DriverRig.Server) {
    let rig = try await Rig(doors: KernelChannels(raw: .open(raw)))
    try await rig.reach(.ready)
    return (rig, try await rig.serve(service, Self.application))
  }

  private static let application = Service.application(reach: .exact)

  private static func link(_ handle: UInt16, _ address: String) -> HCILink {
    HCILink(handle: handle, address: BluetoothAddress(address) ?? BluetoothAddress(0))
  }

  @LoopActor
  private func handle(_ rig: Rig) -> [UInt8] {
    let handle = rig.fake.applications.last?[Service.hear]?.handle ?? 0
    return [UInt8(truncatingIfNeeded: handle), UInt8(truncatingIfNeeded: handle >> 8)]
  }

  /// Waits until bluetoothd has handled the only signalled value, and the radio knows it: a change of the
  /// subscription before that would make the radio send the value again.
  @LoopActor
  private func isHandled(_ value: [UInt8], _ rig: Rig) async throws {
    _ = try await rig.fake.notified.first { $0.value == value }
    try await rig.fake.until { rig.fake.pings > 0 }
    try await rig.settle()
  }

  @Test("A raw HCI value is sent on the client's link with bluetoothd's handle, truncated to the MTU")
  @LoopActor
  func unsubscribed() async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    #expect(raw.opened == [0])
    raw.links = [Self.link(0x41, Self.second), Self.link(0x40, Self.first)]
    let device = rig.fake.addDevice(Self.first)
    let link = try await service.link()
    await rig.fake.write([1], to: Service.put, from: device, mtu: 100)
    server.notify([7, 8], of: Service.id(0xFE03), to: link)
    let head: [UInt8] = [2, 0x40, 0, 9, 0, 5, 0, 4, 0, 0x1B]
    #expect(try await raw.sent.next() == head + handle(rig) + [7, 8])
    server.notify([UInt8](repeating: 1, count: 98), of: Service.id(0xFE03), to: link)
    _ = try await raw.sent.first { $0.count == 109 }
    #expect(raw.sent.all.map(\.count) == [14, 109])
    #expect(rig.radio.counters.forcedNotifications == 2 && rig.radio.counters.cutNotifications == 1)
    // A characteristic without the notify property is not notified by raw HCI either.
    server.notify([1], of: Service.id(0xFE02), to: link)
    #expect(raw.sent.all.count == 2 && rig.radio.counters.droppedNotifications == 1)
    try await rig.settle()
    #expect(rig.fake.notified.all.isEmpty)
    server.close()
  }

  @Test("If the only client has subscribed, it gets the value through bluetoothd and not by raw HCI")
  @LoopActor
  func subscribed() async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    raw.links = [Self.link(0x40, Self.first)]
    rig.fake.addDevice(Self.first)
    let link = try await service.link()
    try await rig.fake.subscribe(Service.hear)
    server.notify([1], of: Service.id(0xFE03), to: link)
    try await isHandled([1], rig)
    #expect(raw.sent.all.isEmpty)
    try await rig.fake.subscribe(Service.hear, false)
    server.notify([2], of: Service.id(0xFE03), to: link)
    #expect(try await raw.sent.next().last == 2)
    #expect(raw.sent.all.count == 1)
    server.close()
  }

  @Test("With two connected clients, exact values for the first are sent by raw HCI on its link only")
  @LoopActor
  func two() async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    raw.links = [Self.link(0x40, Self.first)]
    let device = rig.fake.addDevice(Self.first)
    let subscribed = try await service.link()
    try await rig.fake.subscribe(Service.hear)
    raw.links.append(Self.link(0x41, Self.second))
    rig.fake.addDevice(Self.second)
    let other = try await service.link()
    server.notify([1], of: Service.id(0xFE03), to: other)
    server.notify([2], of: Service.id(0xFE03), to: subscribed)
    _ = try await raw.sent.first { $0.last == 2 }
    #expect(raw.sent.all.map { $0[1] } == [0x41, 0x40])
    // The second client has disconnected, and the first is alone again.
    raw.links.removeLast()
    rig.fake.setConnected(rig.fake.devicePath(Self.second), false)
    _ = try await service.events.first { $0 == .closed(other) }
    server.notify([3], of: Service.id(0xFE03), to: subscribed)
    try await isHandled([3], rig)
    #expect(rig.fake.notified.all.count == 1 && raw.sent.all.count == 2)
    // A client that reconnects has to subscribe again.
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(subscribed) }
    rig.fake.setConnected(device, true)
    let again = try await service.link()
    server.notify([4], of: Service.id(0xFE03), to: again)
    _ = try await raw.sent.first { $0.last == 4 }
    #expect(raw.sent.all.map { $0[1] } == [0x41, 0x40, 0x40])
    #expect(raw.controller.violations.isEmpty)
    server.close()
  }

  private static let identity = "C0:AA:02:00:00:09"

  /// Pairs the client; kernel and bluetoothd know it by its identity address from now on.
  @LoopActor
  private func pair(_ device: ObjectPath, _ rig: Rig, _ raw: FakeRawHCI) async throws {
    raw.links = [Self.link(0x40, Self.identity)]
    rig.fake.identify(device, as: Self.identity)
    try await rig.settle()
  }

  @Test(
    "A client that pairs is still recognised as the subscriber",
    arguments: [true, false])
  @LoopActor
  func paired(isKnown: Bool) async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    raw.links = [Self.link(0x40, Self.first)]
    let device = rig.fake.addDevice(Self.first, isPaired: !isKnown)
    let before = isKnown ? try await service.link() : nil
    try await pair(device, rig, raw)
    try await rig.fake.subscribe(Service.hear)
    let link: LinkID
    if let before { link = before } else { link = try await service.link() }
    server.notify([1], of: Service.id(0xFE03), to: link)
    _ = try await rig.fake.notified.first { $0.value == [1] }
    #expect(raw.sent.all.isEmpty && rig.radio.links.count == 1)
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(link) }
    server.close()
  }

  @Test("If a client pairs while values for it wait, the service is notified when there is capacity")
  @LoopActor
  func pairedWhileWaiting() async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    raw.links = [Self.link(0x40, Self.first)]
    raw.controller.completesAlone = false
    let device = rig.fake.addDevice(Self.first)
    let link = try await service.link()
    func fill() -> Int {
      (0..<40).first { server.notify([$0], of: Service.id(0xFE03), to: link).full == [link] }.map(Int.init) ?? 40
    }
    let room = fill()
    #expect(room > 1 && room < 40)
    try await pair(device, rig, raw)
    raw.controller.complete(0x40)
    _ = try await rig.radio.told.first { $0 == .room(link) }
    // The next values wait under the new address, and free buffers are reported as well.
    #expect(fill() > 0)
    raw.controller.complete(0x40)
    _ = try await rig.radio.told.first { $0 == .room(link) }
    #expect(fill() > 0)
    // Waiting values are dropped with the link, even if the kernel has the next link already.
    try await rig.settle()
    let sent = raw.sent.all.count
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(link) }
    raw.controller.complete(0x40, 8)
    try await rig.settle()
    #expect(raw.sent.all.count == sent)
    #expect(raw.controller.violations.isEmpty)
    server.close()
  }

  @Test("Values for all subscribers, and values that are not exact, are never sent by raw HCI")
  @LoopActor
  func neverRaw() async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let rig = try await Rig(doors: KernelChannels(raw: .open(raw)))
    defer { rig.close() }
    try await rig.reach(.ready)
    let server = try await rig.serve(service)
    raw.links = [Self.link(0x40, Self.first)]
    rig.fake.addDevice(Self.first)
    let link = try await service.link()
    #expect(server.notify([1], of: Service.id(0xFE03), to: link) == Delivery(unreachable: [link]))
    #expect(server.notify([1], of: Service.id(0xFE03), to: .subscribers).accepted.isEmpty)
    try await rig.fake.subscribe(Service.hear)
    #expect(server.notify([2], of: Service.id(0xFE03), to: .subscribers) == Delivery(accepted: [link]))
    _ = try await rig.fake.notified.first { $0.value == [2] }
    #expect(raw.sent.all.isEmpty)
    server.close()
  }

  @Test(
    "A short value that is not exact is sent by raw HCI if the kernel has the fix",
    arguments: [true, false])
  @LoopActor
  func short(isRepaired: Bool) async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let missing = KernelRepair.missing(KernelVersion(6, 1, 100), repaired: KernelVersion(6, 1, 150))
    let rig = try await Rig(doors: KernelChannels(raw: .open(raw)), repair: isRepaired ? .present : missing)
    defer { rig.close() }
    try await rig.reach(.ready)
    let server = try await rig.serve(service)
    let hear = Service.id(0xFE03)
    raw.links = [Self.link(0x40, Self.first)]
    let device = rig.fake.addDevice(Self.first)
    let link = try await service.link()
    await rig.fake.write([1], to: Service.put, from: device, mtu: 517)
    try await rig.fake.subscribe(Service.hear)
    // With one client, a signalled value reaches it alone.
    server.notify([1], of: hear, to: link)
    _ = try await rig.fake.notified.first { $0.value == [1] }
    raw.links.append(Self.link(0x41, Self.second))
    rig.fake.addDevice(Self.second)
    let other = try await service.link()
    // The controller of this test accepts packets of 251 bytes, of which seven are headers.
    let (short, long) = ([UInt8](repeating: 2, count: 244), [UInt8](repeating: 3, count: 245))
    #expect(
      server.notify(short, of: hear, to: link) == Delivery(accepted: [link], overheard: isRepaired ? [] : [other]))
    #expect(server.notify(long, of: hear, to: link) == Delivery(accepted: [link], overheard: [other]))
    _ = try await rig.fake.notified.first { $0.value == long }
    // The other client has not negotiated an MTU, so its limit is 20 bytes.
    #expect(
      server.notify([UInt8](repeating: 4, count: 21), of: hear, to: other)
        == Delivery(accepted: [other], overheard: [link]))
    #expect(server.notify([5], of: hear, to: .links([link, other])) == Delivery(accepted: [link, other]))
    _ = try await rig.fake.notified.first { $0.value == [5] }
    try await rig.settle()
    #expect(raw.sent.all.map { $0[1] } == (isRepaired ? [0x40] : []))
    #expect(rig.fake.notified.all.count == (isRepaired ? 4 : 5))
    #expect(raw.controller.violations.isEmpty)
    // Where the kernel does not have the link, or raw HCI fails, the value is sent by bluetoothd.
    raw.links.removeLast()
    raw.links.append(Self.link(0x42, "00:AA:02:00:00:07"))
    server.notify([6], of: hear, to: other)
    _ = try await rig.fake.notified.first { $0.value == [6] }
    server.close()
  }

  @Test("If it is unknown which client subscribed, an exact value is sent to its client by raw HCI")
  @LoopActor
  func uncertain() async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    raw.links = [Self.link(0x40, Self.first), Self.link(0x41, Self.second)]
    rig.fake.addDevice(Self.first)
    rig.fake.addDevice(Self.second)
    let links = [try await service.link(), try await service.link()]
    try await rig.fake.subscribe(Service.hear)
    for link in links { server.notify([1], of: Service.id(0xFE03), to: link) }
    _ = try await raw.sent.first { $0[1] == 0x41 }
    #expect(raw.sent.all.map { $0[1] } == [0x40, 0x41])
    try await rig.settle()
    #expect(rig.fake.notified.all.isEmpty)
    // A keyboard that Earshot connected to is not a client, and does not make recipients uncertain.
    try await rig.fake.subscribe(Service.hear, false)
    raw.links = [
      Self.link(0x40, Self.first), HCILink(handle: 0x42, address: BluetoothAddress(9), isCentral: true),
    ]
    try await rig.fake.subscribe(Service.hear)
    server.notify([2], of: Service.id(0xFE03), to: links[0])
    _ = try await rig.fake.notified.first { $0.value == [2] }
    server.close()
  }

  @Test("A value for a client without a kernel link is sent to the subscribers, and to nobody if there are none")
  @LoopActor
  func noLink() async throws {
    let (raw, service) = (FakeRawHCI(), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    rig.fake.addDevice(Self.first)
    let link = try await service.link()
    server.notify([1], of: Service.id(0xFE03), to: link)
    #expect(rig.radio.counters.droppedNotifications == 1)
    try await rig.fake.subscribe(Service.hear)
    server.notify([2], of: Service.id(0xFE03), to: link)
    _ = try await rig.fake.notified.first { $0.value == [2] }
    #expect(raw.sent.all.isEmpty)
    server.close()
  }

  @Test("Without CAP_NET_RAW the radio is degraded while an application needs it, with one journal entry")
  @LoopActor
  func shut() async throws {
    let rig = try await Rig(doors: KernelChannels(raw: .shut("CAP_NET_RAW is missing")))
    defer { rig.close() }
    try await rig.reach(.ready)
    let server = try await rig.serve(Service(), Self.application)
    let reason = try await rig.reach(.degraded).reason
    for word in [
      "never subscribe", "CAP_NET_RAW is missing", "AmbientCapabilities=", "setcap", "NotifyUnsubscribed=no",
    ] {
      #expect(reason.contains(word), "\(word)")
    }
    rig.time.advance(by: .seconds(10))
    #expect(rig.entries.all.compactMap(\.id?.name) == ["RadioReady", "RadioDegraded"])
    server.close()
    try await rig.reach(.ready)
  }

  @Test("If two capabilities are missing, each has a journal entry of readable length")
  @LoopActor
  func bothShut() async throws {
    let doors = KernelChannels(management: .shut("CAP_NET_ADMIN is missing"), raw: .shut("CAP_NET_RAW is missing"))
    let rig = try await Rig(version: BlueZVersion(5, 66), doors: doors)
    defer { rig.close() }
    try await rig.reach(.ready)
    let server = try await rig.serve(Service(), Self.application)
    try await rig.reach(.degraded, "never subscribe")
    let advertisement = try await rig.advertise()
    try await rig.reach(.degraded, "5.66")
    rig.time.advance(by: .seconds(10))
    let entries = rig.entries.all.filter { $0.id?.name == "RadioDegraded" }.map(\.text)
    #expect(entries.count == 2)
    #expect(entries.first?.hasSuffix("or install BlueZ 5.80 or newer.") == true)
    #expect(entries.last?.hasSuffix("or NotifyUnsubscribed=no.") == true)
    advertisement.cancel()
    server.close()
  }

  @Test("An error of the kernel for raw HCI is quoted, and raw HCI is used again after an adapter restart")
  @LoopActor
  func denied() async throws {
    let time = VirtualTime()
    let (raw, service) = (FakeRawHCI(scheduler: time), Service())
    let (rig, server) = try await rig(raw, service)
    defer { rig.close() }
    raw.links = [Self.link(0x40, Self.first)]
    rig.fake.addDevice(Self.first)
    let link = try await service.link()
    // A passing failure does not make the radio degraded, even if a value was lost.
    raw.failure = .busy("send: Resource temporarily unavailable")
    server.notify([1], of: Service.id(0xFE03), to: link)
    time.advance(by: .seconds(2))
    try await rig.settle()
    #expect(rig.radio.counters.droppedNotifications == 1 && rig.radio.status.state == .ready)
    raw.failure = .denied("send: Operation not permitted")
    server.notify([1], of: Service.id(0xFE03), to: link)
    try await rig.reach(.degraded, "send: Operation not permitted")
    raw.failure = nil
    rig.fake.power("hci0", false)
    try await rig.reach(.waiting)
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
    server.close()
  }
}
