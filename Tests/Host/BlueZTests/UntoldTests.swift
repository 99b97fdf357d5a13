import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

/// Links that bluetoothd uses, but signals only by the peer's services and the disconnection.
@Suite("Links whose start bluetoothd does not signal")
struct UntoldTests {
  init() { EventLoop.shared.runInBackground() }

  /// A driver connected to such a peer.
  ///
  /// - Parameter isRead: whether bluetoothd has discovered the peer's services.
  @LoopActor
  private static func connected(isRead: Bool = true) async throws -> (Rig, FakePeer, Visitor) {
    let rig = try await Rig.ready(version: BlueZVersion(5, 82))
    let peer = try await rig.sighted()
    (peer.isNeverTold, peer.isUnreadable) = (true, !isRead)
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    #expect(try await visitor.events.next() == .connected)
    return (rig, peer, visitor)
  }

  /// Makes bluetoothd signal the RSSI of the peer, a property that is unrelated to the link.
  @LoopActor
  private static func tellMore(_ rig: Rig, of device: ObjectPath) async throws {
    rig.fake.signal(["RSSI": .int16(-50)], of: device)
    try await rig.settle()
  }

  @Test("A link whose start was not signalled works until its end is signalled, even if Connect returns late")
  @LoopActor
  func works() async throws {
    let (rig, peer, visitor) = try await Self.connected()
    defer { rig.close() }
    let device = rig.fake.devicePath(peer.address)
    for number in 0..<4 as Range<UInt8> {
      visitor.link?.write([number], to: Visitor.id(Visitor.put), as: .request)
      #expect(try await peer.writes.next().value == [number])
      for _ in 0..<6 {
        rig.time.advance(by: .seconds(1))
        try await Self.tellMore(rig, of: device)
      }
    }
    #expect(rig.radio.links.count == 1)
    rig.fake.setConnected(device, false)
    #expect(try await visitor.end() == "The link to \(peer.address) was lost.")
    #expect(rig.radio.links.isEmpty)
  }

  @Test("Two connections that share a link end when the link ends, and each can end alone")
  @LoopActor
  func twoConnections() async throws {
    let (rig, peer, first) = try await Self.connected()
    defer { rig.close() }
    let others = [Visitor(), Visitor()]
    for other in others {
      try other.connect(with: rig.radio, to: peer)
      #expect(other.link?.id == first.link?.id)
      #expect(try await other.events.next() == .connected)
    }
    first.drop()
    #expect(try await first.end() == "Disconnected.")
    others[0].link?.write([7], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await peer.writes.next().value == [7])
    rig.fake.setConnected(rig.fake.devicePath(peer.address), false)
    for other in others { #expect(try await other.end() == "The link to \(peer.address) was lost.") }
    #expect(rig.radio.links.isEmpty)
    #expect(!rig.fake.calls.all.contains { $0.hasPrefix("Disconnect") })
  }

  @Test("A peer whose end is not signalled is removed when bluetoothd reports that it is disconnected")
  @LoopActor
  func untoldEnd() async throws {
    let (rig, peer, visitor) = try await Self.connected(isRead: false)
    defer { rig.close() }
    peer.isEndUntold = true
    let (service, device) = (Service(), rig.fake.devicePath(peer.address))
    let server = try await rig.serve(service)
    #expect(await rig.fake.write([1], to: Service.put, from: device) == nil)
    visitor.drop()
    #expect(try await visitor.end() == "Disconnected.")
    rig.fake.setConnected(device, false)
    try await rig.settle()
    #expect(rig.radio.links.count == 1 && rig.fake.devices.keys.contains(device))
    rig.time.advance(by: .seconds(5))
    try await rig.fake.until { rig.fake.devices.isEmpty }
    #expect(rig.radio.links.isEmpty)
    server.close()
  }

  @Test("A peer that uses a served application is not removed before its link has ended", arguments: [true, false])
  @LoopActor
  func takenAway(isRead: Bool) async throws {
    let (rig, peer, visitor) = try await Self.connected(isRead: isRead)
    defer { rig.close() }
    let (service, device) = (Service(), rig.fake.devicePath(peer.address))
    let server = try await rig.serve(service)
    #expect(await rig.fake.write([1], to: Service.put, from: device) == nil)
    visitor.drop()
    #expect(try await visitor.end() == "Disconnected.")
    try await Self.tellMore(rig, of: device)
    #expect(rig.fake.devices[device]?.isConnected == true)
    rig.fake.setConnected(device, false)
    try await rig.fake.until { rig.fake.devices.isEmpty }
    server.close()
  }

  @Test(
    "An unsignalled link is reported when the peer's services are known, and advertisements are renewed"
  )
  @LoopActor
  func incoming() async throws {
    let rig = try await Rig.ready(version: BlueZVersion(5, 82))
    defer { rig.close() }
    let registration = try await rig.advertise()
    let peer = try await rig.sighted()
    peer.isNeverTold = true
    rig.fake.arrive(peer)
    #expect(rig.fake.advertisements.last?.isOnAir == false)
    let told = try await rig.radio.told.first { if case .up(_, peer.address, _) = $0 { true } else { false } }
    guard case .up(let link, _, _) = told else { throw CancellationError() }
    try await rig.fake.until { rig.fake.advertisements.last?.isOnAir == true }
    // A connection attempt uses the present link, and does not end it.
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    #expect(try await visitor.events.next() == .connected)
    #expect(visitor.link?.id == link && !rig.fake.calls.all.contains { $0.hasPrefix("Connect") })
    visitor.drop()
    #expect(try await visitor.end() == "Disconnected.")
    try await rig.settle()
    #expect(rig.radio.links == [link] && !rig.fake.calls.all.contains { $0.hasPrefix("Disconnect") })
    let renewals = rig.fake.calls.all.filter { $0.hasPrefix("RegisterAdvertisement") }.count
    rig.fake.setConnected(rig.fake.devicePath(peer.address), false)
    _ = try await rig.radio.told.first { $0 == .down(link) }
    while rig.fake.calls.all.filter({ $0.hasPrefix("RegisterAdvertisement") }).count == renewals {
      _ = try await rig.fake.calls.next()
    }
    registration.cancel()
  }
}
