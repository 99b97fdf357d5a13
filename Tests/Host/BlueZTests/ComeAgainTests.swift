import BlueZ
import Common
import DBus
import HCI
import Loop
import Radio
import TestSupport
import Testing

/// Peers that disconnect and reconnect while bluetoothd is busy, so that it signals no disconnection.
@Suite("Links whose end and return bluetoothd does not signal")
struct ComeAgainTests {
  init() { EventLoop.shared.runInBackground() }

  private static let address = "00:AA:02:00:00:01"

  /// A service with a client, and a kernel that reports links.
  @LoopActor
  private final class Stage {
    let rig: Rig
    let service = Service()
    let server: DriverRig.Server
    let device: ObjectPath
    let link: LinkID
    private let peer: BluetoothAddress

    init() async throws {
      rig = try await Rig.managed()
      server = try await rig.serve(service)
      device = rig.fake.addDevice(ComeAgainTests.address)
      peer = try #require(BluetoothAddress(ComeAgainTests.address))
      let told = try await rig.radio.told.first { if case .up = $0 { true } else { false } }
      guard case .up(let link, _, _) = told else { throw CancellationError() }
      self.link = link
      #expect(await rig.fake.write([1], to: Service.put, from: device) == nil)
    }

    func kernelSaysGone(kind: AddressKind = .randomAddress, on index: UInt16 = 0) async throws {
      tellGone(kind: kind, on: index)
      try await rig.settle()
    }

    func kernelSaysThere() async throws {
      tellThere()
      try await rig.settle()
    }

    /// Disconnects the peer. The kernel reports it; bluetoothd sends no signal, but answers queries correctly.
    func goUntold() async throws {
      let peer = FakePeer(ComeAgainTests.address)
      rig.fake.add(peer)
      (peer.isNeverTold, peer.isEndUntold) = (true, true)
      rig.fake.setConnected(device, false)
      try await kernelSaysGone()
    }

    /// Makes the kernel report a disconnection. The report stays unread in the socket.
    func tellGone(kind: AddressKind = .randomAddress, on index: UInt16 = 0) {
      rig.kernel.tell(.deviceDisconnected(DeviceDisconnected(address: peer, kind: kind, reason: .timeout)), of: index)
    }

    func tellThere() {
      rig.kernel.tell(
        .deviceConnected(DeviceConnected(address: peer, kind: .randomAddress, flags: 0, data: [])), of: 0)
    }

    /// The next link after the end of the first, and its start.
    func nextLink() async throws -> (link: LinkID, since: Instant) {
      _ = try await rig.radio.told.first { $0 == .down(self.link) }
      let told = try await rig.radio.told.first { if case .up = $0 { true } else { false } }
      guard case .up(let next, ComeAgainTests.address, let since) = told else { throw CancellationError() }
      return (next, since)
    }

    func next() async throws -> LinkID { try await nextLink().link }

    func close() {
      server.close()
      rig.close()
    }
  }

  @Test("When the kernel reports a peer's return, its old link ends, and later writes belong to a new link")
  @LoopActor
  func again() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    let registration = try stage.rig.radio.advertise(.sample)
    try await stage.rig.kernel.until { !stage.rig.kernel.onAir().isEmpty }
    try await stage.kernelSaysGone()
    #expect(stage.rig.radio.links == [stage.link])
    // The controller has ended the advertising set through which the peer reconnected.
    stage.rig.kernel.silence()
    try await stage.kernelSaysThere()
    let next = try await stage.next()
    #expect(next != stage.link && stage.rig.radio.links == [next])
    try await stage.rig.kernel.until { !stage.rig.kernel.onAir().isEmpty }
    #expect(await stage.rig.fake.write([2], to: Service.put, from: stage.device) == nil)
    #expect(stage.service.events.all.last == .written(next, Service.id(0xFE02), [2]))
    registration.cancel()
  }

  @Test("A repeated `Connected` signal of bluetoothd starts a new link")
  @LoopActor
  func signalled() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    try await stage.kernelSaysGone()
    stage.rig.fake.signal(["Connected": .bool(true)], of: stage.device)
    let next = try await stage.next()
    #expect(stage.rig.radio.links == [next])
    stage.rig.time.advance(by: .seconds(10))
    try await stage.rig.settle()
    #expect(stage.rig.radio.links == [next])
  }

  @Test(
    "The start time of a new link is that of the first report by the kernel or bluetoothd",
    arguments: [true, false])
  @LoopActor
  func since(isToldByKernel: Bool) async throws {
    let stage = try await Stage()
    defer { stage.close() }
    stage.rig.time.advance(by: .seconds(3))
    try await stage.kernelSaysGone()
    stage.rig.time.advance(by: .seconds(1))
    let began = stage.rig.time.now
    if isToldByKernel {
      stage.tellThere()
    } else {
      stage.rig.fake.signal(["Connected": .bool(true)], of: stage.device)
    }
    let next = try await stage.nextLink()
    #expect(next.since == began)
  }

  @Test("A link end signalled by bluetoothd and the kernel is reported once, and the peer's next link is new")
  @LoopActor
  func ordinary() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    try await stage.kernelSaysGone()
    stage.rig.fake.setConnected(stage.device, false)
    _ = try await stage.rig.radio.told.first { $0 == .down(stage.link) }
    try await stage.kernelSaysThere()
    stage.rig.fake.setConnected(stage.device, true)
    let told = try await stage.rig.radio.told.first { if case .up = $0 { true } else { false } }
    guard case .up(let next, _, _) = told else { throw CancellationError() }
    stage.rig.time.advance(by: .seconds(10))
    try await stage.rig.settle()
    #expect(stage.rig.radio.links == [next] && next != stage.link)
    #expect(stage.rig.radio.told.all.filter { if case .down = $0 { true } else { false } }.count == 1)
  }

  @Test("Kernel events are handled before later D-Bus signals of bluetoothd, even if they are read later")
  @LoopActor
  func late() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    // The two relevant packets follow more packets than the socket reads in one loop iteration.
    for _ in 0..<100 { stage.tellGone(on: 1) }
    stage.tellGone()
    stage.tellThere()
    for isConnected in [false, true] { stage.rig.fake.signal(["Connected": .bool(isConnected)], of: stage.device) }
    let next = try await stage.next()
    try await stage.rig.settle()
    stage.rig.time.advance(by: .seconds(10))
    try await stage.rig.settle()
    #expect(stage.rig.radio.links == [next])
    #expect(stage.rig.radio.told.all.filter { if case .down = $0 { true } else { false } }.count == 1)
  }

  @Test("The end of a link that bluetoothd does not signal is detected within 5 s by reading its properties")
  @LoopActor
  func unsignalled() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    try await stage.goUntold()
    stage.rig.time.advance(by: .milliseconds(4900))
    try await stage.rig.settle()
    #expect(stage.rig.radio.links == [stage.link])
    stage.rig.time.advance(by: .milliseconds(200))
    _ = try await stage.rig.radio.told.first { $0 == .down(stage.link) }
    #expect(stage.rig.radio.links.isEmpty)
  }

  @Test("A link that begins after an unsignalled end has the time of the peer's return as its start")
  @LoopActor
  func sinceUnsignalled() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    try await stage.goUntold()
    stage.rig.time.advance(by: .seconds(6))
    _ = try await stage.rig.radio.told.first { $0 == .down(stage.link) }
    stage.rig.time.advance(by: .seconds(6))
    let began = stage.rig.time.now
    stage.rig.fake.signal(["Connected": .bool(true)], of: stage.device)
    let told = try await stage.rig.radio.told.first { if case .up = $0 { true } else { false } }
    guard case .up(_, Self.address, let since) = told else { throw CancellationError() }
    #expect(since == began)
  }

  @Test("If bluetoothd does not answer whether the peer is connected, the peer's next write belongs to a new link")
  @LoopActor
  func unanswered() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    stage.rig.fake.keepsProperties = true
    try await stage.kernelSaysGone()
    stage.rig.time.advance(by: .seconds(5))
    _ = try await stage.rig.radio.told.first { $0 == .down(stage.link) }
    #expect(await stage.rig.fake.write([2], to: Service.put, from: stage.device) == nil)
    let told = try await stage.rig.radio.told.first { if case .up = $0 { true } else { false } }
    guard case .up(let next, Self.address, _) = told else { throw CancellationError() }
    // A peer that counts as disconnected has a link until the next query, which is not answered either.
    stage.rig.time.advance(by: .seconds(5))
    try await stage.rig.settle()
    #expect(stage.rig.radio.links == [next] && next != stage.link)
  }

  @Test("Kernel events about other adapters and BR/EDR links are ignored")
  @LoopActor
  func others() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    try await stage.kernelSaysGone(on: 1)
    try await stage.kernelSaysGone(kind: .classic)
    try await stage.kernelSaysThere()
    stage.rig.time.advance(by: .seconds(10))
    try await stage.rig.settle()
    #expect(stage.rig.radio.links == [stage.link])
    #expect(stage.rig.fake.calls.all.allSatisfy { !$0.hasPrefix("Disconnect") })
  }
}
