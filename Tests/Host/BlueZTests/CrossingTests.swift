import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Two peers that connect to each other at once")
struct CrossingTests {
  init() { EventLoop.shared.runInBackground() }

  /// A client whose connection attempt hangs while its peer connects by itself.
  @LoopActor
  private func crossed(_ rig: Rig) async throws -> (Visitor, FakePeer) {
    let peer = try await rig.sighted()
    peer.isDeaf = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    try await rig.fake.until { peer.isBeingConnected }
    rig.fake.arrive(peer)
    try await rig.settle()
    return (visitor, peer)
  }

  @Test("If Connect is not answered, the link that the peer made is used 2 s after it came up")
  @LoopActor
  func unanswered() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let (visitor, peer) = try await crossed(rig)
    #expect(visitor.events.all.isEmpty)
    rig.time.advance(by: .seconds(2))
    #expect(try await visitor.events.next() == .connected)
    #expect(rig.radio.links == [visitor.link?.id])
    visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await visitor.events.next() == .written(Visitor.id(Visitor.put), error: nil))
    // The result of the connection attempt arrives late, and has no effect.
    peer.giveUpConnecting()
    try await rig.settle()
    rig.time.advance(by: .seconds(60))
    visitor.link?.write([2], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await visitor.events.next() == .written(Visitor.id(Visitor.put), error: nil))
    #expect(peer.writes.all.map(\.value) == [[1], [2]])
    #expect(!rig.fake.calls.all.contains { $0.hasPrefix("Disconnect") })
    rig.fake.lose(peer)
    #expect(try await visitor.end().contains("was lost"))
  }

  @Test("A connection attempt that fails because the peer connected first uses the peer's link")
  @LoopActor
  func refused() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let (visitor, peer) = try await crossed(rig)
    peer.giveUpConnecting()
    #expect(try await visitor.events.next() == .connected)
    visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await peer.writes.next().value == [1])
    #expect(!rig.fake.calls.all.contains { $0.hasPrefix("Disconnect") })
  }

  @Test("If the link that the peer made ends at once, our connection attempt continues")
  @LoopActor
  func endedAtOnce() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let (visitor, peer) = try await crossed(rig)
    rig.fake.lose(peer)
    try await rig.settle()
    rig.time.advance(by: .seconds(3))
    try await rig.settle()
    #expect(visitor.events.all.isEmpty)
    peer.giveUpConnecting()
    #expect(try await visitor.end().contains("Connecting to"))
  }

  @Test("Cancelling a connection attempt does not cut a link that the peer uses")
  @LoopActor
  func givenUp() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let server = try await rig.serve(Service())
    let (visitor, peer) = try await crossed(rig)
    let path = rig.fake.devicePath(peer.address)
    await rig.fake.write([1], to: Service.put, from: path, mtu: nil)
    visitor.drop()
    #expect(try await visitor.end() == "Disconnected.")
    try await rig.settle()
    #expect(rig.fake.devices[path]?.isConnected == true)
    server.close()
  }

  @Test("An advertisement that ended because the peer connected is advertised again")
  @LoopActor
  func advertisement() async throws {
    let raw = FakeRawHCI()
    let rig = try await Rig(doors: KernelChannels(raw: .open(raw)))
    defer { rig.close() }
    try await rig.reach(.ready)
    let registration = try await rig.advertise()
    let peer = try await rig.sighted()
    peer.isDeaf = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    try await rig.fake.until { peer.isBeingConnected }
    let address = try #require(BluetoothAddress(peer.address))
    raw.links = [HCILink(handle: 0x42, address: address, isCentral: false)]
    rig.fake.arrive(peer)
    #expect(rig.fake.advertisements.last?.isOnAir == false)
    try await rig.fake.until { rig.fake.advertisements.last?.isOnAir == true }
    registration.cancel()
  }
}
