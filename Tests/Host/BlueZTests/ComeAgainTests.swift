import BlueZ
import Common
import DBus
import HCI
import Loop
import Radio
import TestSupport
import Testing

/// Peers that go and come again while bluetoothd is busy, so that it signals no end.
@Suite("Links that end and come again are two, also where bluetoothd does not say so")
struct ComeAgainTests {
  init() { EventLoop.shared.runInBackground() }

  private static let address = "00:AA:02:00:00:01"

  /// A service with a client, beside a kernel that tells of links.
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

    /// The peer goes; the kernel says so, and bluetoothd only where it is asked.
    func goUntold() async throws {
      let peer = FakePeer(ComeAgainTests.address)
      rig.fake.add(peer)
      (peer.isNeverTold, peer.isEndUntold) = (true, true)
      rig.fake.setConnected(device, false)
      try await kernelSaysGone()
    }

    /// The kernel's word lies in the socket, unread.
    func tellGone(kind: AddressKind = .randomAddress, on index: UInt16 = 0) {
      rig.kernel.tell(.deviceDisconnected(DeviceDisconnected(address: peer, kind: kind, reason: .timeout)), of: index)
    }

    func tellThere() {
      rig.kernel.tell(
        .deviceConnected(DeviceConnected(address: peer, kind: .randomAddress, flags: 0, data: [])), of: 0)
    }

    /// The next link, after the end of the first, and since when it is there.
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

  @Test("When the kernel says that the peer is there again, the old link has ended, and what comes is of the new one")
  @LoopActor
  func again() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    let registration = try stage.rig.radio.advertise(.sample)
    try await stage.rig.kernel.until { !stage.rig.kernel.onAir().isEmpty }
    try await stage.kernelSaysGone()
    #expect(stage.rig.radio.links == [stage.link])
    // The controller has ended the set by which the peer came again.
    stage.rig.kernel.silence()
    try await stage.kernelSaysThere()
    let next = try await stage.next()
    #expect(next != stage.link && stage.rig.radio.links == [next])
    try await stage.rig.kernel.until { !stage.rig.kernel.onAir().isEmpty }
    #expect(await stage.rig.fake.write([2], to: Service.put, from: stage.device) == nil)
    #expect(stage.service.events.all.last == .written(next, Service.id(0xFE02), [2]))
    registration.cancel()
  }

  @Test("When bluetoothd signals once more that the peer is connected, it is another link")
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
    "The next link is there since the kernel or bluetoothd told of it, and not as long as the one before",
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

  @Test("The end that bluetoothd signals is told once, and the next link is a new one")
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

  @Test("What the kernel said before bluetoothd's signals is heard before them, also when it is read later")
  @LoopActor
  func late() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    // More than the socket hands out in a turn of the loop are before the two that count.
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

  @Test("An end that bluetoothd does not signal is told after five seconds, for it says so when it is asked")
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

  @Test("One whose end bluetoothd did not signal, and who comes again later, is there since then")
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

  @Test("A bluetoothd that does not answer says nothing of the peer: what it writes next is of a link that lasts")
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
    // A peer that is taken for gone has a link until the next question, which is not answered either.
    stage.rig.time.advance(by: .seconds(5))
    try await stage.rig.settle()
    #expect(stage.rig.radio.links == [next] && next != stage.link)
  }

  @Test("A link of another adapter, and one that is not LE, say nothing of this one")
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
