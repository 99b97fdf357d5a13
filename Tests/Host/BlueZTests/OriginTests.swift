import Air
import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Which end made a link")
struct OriginTests {
  init() { EventLoop.shared.runInBackground() }

  private static let address = "00:AA:02:00:00:01"

  @LoopActor
  private func up(_ rig: Rig, _ address: String = Self.address) async throws -> LinkID {
    rig.fake.addDevice(address)
    let told = try await rig.radio.told.first { if case .up = $0 { true } else { false } }
    guard case .up(let link, address, _) = told else { throw CancellationError() }
    return link
  }

  @Test("With raw HCI the kernel's link list shows which end made a link", arguments: [true, false])
  @LoopActor
  func list(isCentral: Bool) async throws {
    let raw = FakeRawHCI()
    let rig = try await Rig(doors: KernelChannels(raw: .open(raw)))
    defer { rig.close() }
    try await rig.reach(.ready)
    let link = try await up(rig)
    #expect(rig.driver.origin(of: link) == .unknown)
    let address = try #require(BluetoothAddress(Self.address))
    raw.links = [
      HCILink(handle: 0x40, address: address, isLE: false), HCILink(handle: 0x41, address: BluetoothAddress(9)),
    ]
    #expect(rig.driver.origin(of: link) == .unknown)
    raw.links.append(HCILink(handle: 0x42, address: address, isCentral: isCentral))
    #expect(rig.driver.origin(of: link) == (isCentral ? .here : .peer))
    #expect(rig.driver.origin(of: LinkID(.max)) == .unknown)
  }

  @Test("For a peer that may use another program's service, it is unknown which end made the link")
  @LoopActor
  func others() async throws {
    let raw = FakeRawHCI()
    let rig = try await Rig(doors: KernelChannels(raw: .open(raw)))
    defer { rig.close() }
    try await rig.reach(.ready)
    let server = try await rig.serve(Service())
    defer { server.close() }
    let link = try await up(rig)
    let address = try #require(BluetoothAddress(Self.address))
    func serve(_ services: [BluetoothUUID]) async throws {
      rig.fake.emit(
        "/org/bluez/hci0", "org.freedesktop.DBus.Properties", "PropertiesChanged",
        [
          .string("org.bluez.Adapter1"), .options(["UUIDs": .strings(services.map(\.description))]), .strings([]),
        ])
      try await rig.settle()
    }
    let own = Service.application.services.map(\.uuid) + [BluetoothUUID(short: 0x1801)]
    let other = BluetoothUUID(short: 0xFFD0)
    for isCentral in [false, true] {
      raw.links = [HCILink(handle: 0x42, address: address, isCentral: isCentral)]
      try await serve(own)
      #expect(rig.driver.origin(of: link) == (isCentral ? .here : .peer))
      try await serve(own + [other])
      #expect(rig.driver.origin(of: link) == (isCentral ? .here : .unknown))
    }
  }

  @Test("Management events for the adapter show which end made a link")
  @LoopActor
  func events() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let address = try #require(BluetoothAddress(Self.address))
    func connected(_ flags: UInt32, on index: UInt16 = 0) async throws {
      rig.kernel.tell(
        .deviceConnected(DeviceConnected(address: address, kind: .randomAddress, flags: flags, data: [])), of: index)
      rig.kernel.tell(.discovering(.init(types: 6, isOn: false)), of: index)
      try await rig.settle()
    }
    let link = try await up(rig)
    #expect(rig.driver.origin(of: link) == .unknown)
    try await connected(1 << 3, on: 1)
    #expect(rig.driver.origin(of: link) == .unknown)
    try await connected(1 << 3)
    #expect(rig.driver.origin(of: link) == .here)
  }

  @Test("A link's start time is that of the `Connected` signal, however late the peer first uses the link")
  @LoopActor
  func since() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    rig.time.advance(by: .seconds(1))
    let begin = rig.time.now
    let paired = rig.fake.addDevice(Self.address, isPaired: true)
    try await rig.settle()
    rig.time.advance(by: .seconds(5))
    #expect(rig.radio.links.isEmpty)
    await rig.fake.write([1], to: Service.put, from: paired, mtu: nil)
    let link = try await service.link()
    #expect(rig.radio.told.all.last == .up(link, Self.address, since: begin))
    server.close()
  }
}
