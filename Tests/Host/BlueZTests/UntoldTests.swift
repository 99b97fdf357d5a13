import Air
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@testable import BlueZ

/// Links that bluetoothd uses like any other, and of which it never tells that they are up or have ended (5.82).
@Suite("Links that bluetoothd never tells of")
struct UntoldTests {
  init() { EventLoop.shared.runInBackground() }

  private static let address = "00:AA:03:00:00:01"

  /// What tells of such links: the kernel's list of links, or the events of the management socket alone.
  enum Teller: CaseIterable, Sendable { case list, events }

  /// A driver with such a peer, which was sighted, and what the kernel says of it.
  @LoopActor
  private final class Stand {
    let rig: Rig
    let raw = FakeRawHCI()
    let teller: Teller
    let address: BluetoothAddress

    init(_ teller: Teller) async throws {
      address = try #require(BluetoothAddress(UntoldTests.address))
      self.teller = teller
      let (kernel, time) = (FakeKernel(), VirtualTime())
      let doors =
        teller == .list
        ? KernelDoors(raw: .open(raw))
        : KernelDoors(management: .open(ManagementSocket(kernel.socket, scheduler: time)))
      rig = try await Rig(version: BlueZVersion(5, 82), doors: doors, kernel: kernel, time: time)
      try await rig.reach(.ready)
    }

    func setUp(_ isUp: Bool) async throws {
      switch (teller, isUp) {
      case (.list, true): raw.links = [HCILink(handle: 0x42, address: address)]
      case (.list, false): raw.links = []
      case (.events, true):
        rig.kernel.tell(
          .deviceConnected(DeviceConnected(address: address, kind: .publicAddress, flags: 8, data: [])), of: 0)
      case (.events, false):
        rig.kernel.tell(
          .deviceDisconnected(DeviceDisconnected(address: address, kind: .publicAddress, reason: .remote)), of: 0)
      }
      // All that the kernel said has been heard.
      rig.kernel.tell(.discovering(.init(types: 6, isOn: false)), of: 0)
      try await rig.settle()
    }

    /// Lets so much time pass, in steps, so that bluetoothd can answer between.
    func pass(seconds: Int) async throws {
      for _ in 0..<seconds {
        rig.time.advance(by: .seconds(1))
        try await rig.settle()
      }
    }
  }

  /// What the only client has written.
  @LoopActor
  private static func written(_ service: Service) -> [[UInt8]] {
    service.events.all.compactMap { if case .written(_, Service.id(0xFE02), let value) = $0 { value } else { nil } }
  }

  @Test("One that was made here works until the kernel says that it has ended", arguments: Teller.allCases)
  @LoopActor
  func outgoing(teller: Teller) async throws {
    let stand = try await Stand(teller)
    let rig = stand.rig
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isNeverTold = true
    let visitor = Visitor()
    try await stand.setUp(true)
    try visitor.connect(with: rig.radio, to: peer)
    #expect(try await visitor.events.next() == .connected)
    for number in 0..<4 as Range<UInt8> {
      try await stand.pass(seconds: 6)
      visitor.link?.write([number], to: Visitor.id(Visitor.put), as: .request)
      #expect(try await peer.writes.next().value == [number])
    }
    #expect(rig.radio.links.count == 1)
    try await stand.setUp(false)
    try await stand.pass(seconds: 6)
    #expect(try await visitor.end() == "The link to \(peer.address) was lost.")
    #expect(rig.radio.links.isEmpty && rig.driver.doubts.isEmpty)
  }

  @Test(
    "One that its peer made works until the kernel says that it has ended; what the peer wrote last is told",
    arguments: Teller.allCases)
  @LoopActor
  func incoming(teller: Teller) async throws {
    let stand = try await Stand(teller)
    let (rig, service) = (stand.rig, Service())
    defer { rig.close() }
    let server = try await rig.serve(service)
    try await stand.setUp(true)
    let device = rig.fake.devicePath(Self.address)
    #expect(await rig.fake.write([0], to: Service.put, from: device) == nil)
    let link = try await service.link()
    for number in 1..<4 as Range<UInt8> {
      try await stand.pass(seconds: 6)
      #expect(await rig.fake.write([number], to: Service.put, from: device) == nil)
    }
    // The kernel is faster than bluetoothd.
    try await stand.setUp(false)
    #expect(await rig.fake.write([4], to: Service.put, from: device) == nil)
    try await stand.pass(seconds: 6)
    _ = try await service.events.first { $0 == .closed(link) }
    #expect(Self.written(service) == [[0], [1], [2], [3], [4]])
    #expect(service.events.all.first == .opened(link, Self.address) && service.events.all.last == .closed(link))
    server.close()
  }

  @Test("A second after the kernel's word it is over, and the peer's next write is on a new link")
  @LoopActor
  func again() async throws {
    let stand = try await Stand(.events)
    let (rig, service) = (stand.rig, Service())
    defer { rig.close() }
    let server = try await rig.serve(service)
    try await stand.setUp(true)
    let device = rig.fake.devicePath(Self.address)
    #expect(await rig.fake.write([0], to: Service.put, from: device) == nil)
    let link = try await service.link()
    try await stand.setUp(false)
    try await stand.setUp(true)
    rig.time.advance(by: .milliseconds(999))
    try await rig.settle()
    #expect(!service.events.all.contains(.closed(link)))
    rig.time.advance(by: .milliseconds(1))
    _ = try await service.events.first { $0 == .closed(link) }
    #expect(await rig.fake.write([1], to: Service.put, from: device) == nil)
    let next = try await service.events.first { if case .opened(let other, _) = $0 { other != link } else { false } }
    guard case .opened(let second, _) = next else { throw CancellationError() }
    #expect(service.events.all.last == .written(second, Service.id(0xFE02), [1]))
    server.close()
  }

  @Test("The kernel's word ends no link of which bluetoothd tells: bluetoothd first tells what the peer did last")
  @LoopActor
  func told() async throws {
    let stand = try await Stand(.events)
    let (rig, service) = (stand.rig, Service())
    defer { rig.close() }
    let server = try await rig.serve(service)
    try await stand.setUp(true)
    let device = rig.fake.addDevice(Self.address)
    let link = try await service.link()
    try await stand.setUp(false)
    try await stand.pass(seconds: 6)
    #expect(await rig.fake.write([1], to: Service.put, from: device) == nil)
    #expect(rig.radio.links.count == 1)
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(link) }
    server.close()
  }

  @Test("A peer that uses us is not taken away while it is there, and is when it has gone")
  @LoopActor
  func takenAway() async throws {
    let stand = try await Stand(.events)
    let (rig, service) = (stand.rig, Service())
    defer { rig.close() }
    let server = try await rig.serve(service)
    let peer = try await rig.sighted()
    peer.isNeverTold = true
    let (visitor, device) = (Visitor(), rig.fake.devicePath(peer.address))
    try await stand.setUp(true)
    try visitor.connect(with: rig.radio, to: peer)
    #expect(try await visitor.events.next() == .connected)
    #expect(await rig.fake.write([1], to: Service.put, from: device) == nil)
    visitor.drop()
    #expect(try await visitor.end() == "Disconnected.")
    // bluetoothd tells something else of it.
    rig.fake.emit(
      device, "org.freedesktop.DBus.Properties", "PropertiesChanged",
      [.string("org.bluez.Device1"), .options(["RSSI": .int16(-50)]), .strings([])])
    try await rig.settle()
    #expect(
      rig.fake.devices[device]?.isConnected == true && !rig.fake.calls.all.contains { $0.hasPrefix("RemoveDevice") })
    try await stand.setUp(false)
    rig.time.advance(by: .seconds(1))
    try await rig.fake.until { rig.fake.devices.isEmpty }
    server.close()
  }
}
