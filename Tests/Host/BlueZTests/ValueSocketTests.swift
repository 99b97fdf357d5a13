import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Values of peers come by sockets of their own, or else by signals")
struct ValueSocketTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor private static let hear = Visitor.id(Visitor.hear)
  @LoopActor private static let uuid = Visitor.hear.description

  private static func isEnd(_ event: LinkEvent) -> Bool { if case .disconnected = event { true } else { false } }

  /// A visitor that listens to a peer, which notifies.
  @LoopActor
  private func listening(_ rig: Rig, _ peer: FakePeer) async throws -> Visitor {
    let visitor = try await rig.visit(peer)
    visitor.link?.subscribe(to: Self.hear)
    #expect(try await visitor.events.next() == .subscribed(Self.hear))
    return visitor
  }

  @LoopActor
  private func heard(_ visitor: Visitor) -> [[UInt8]] {
    visitor.events.all.compactMap { if case .notified(Self.hear, let value) = $0 { value } else { nil } }
  }

  @Test("All come by one socket, in order, and no other program on the bus hears them")
  @LoopActor
  func whole() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let stranger = BusConnection(address: .address(rig.bus.address))
    stranger.connect()
    try await stranger.ready()
    var overheard = 0
    let signals = stranger.subscribe(SignalMatch(interface: "org.freedesktop.DBus.Properties")) { message in
      if message.arguments.count > 1, message.arguments[1]["Value"] != nil { overheard += 1 }
    }
    let peer = try await rig.sighted(.sample(notifies: true))
    let visitor = try await listening(rig, peer)
    let values = (0..<100 as Range<UInt8>).map { [$0] + [UInt8](repeating: 7, count: 400) } + [[], [1]]
    for value in values { rig.fake.notify(value, of: Self.uuid, from: peer) }
    _ = try await visitor.events.first { $0 == .notified(Self.hear, [1]) }
    #expect(heard(visitor) == values)
    #expect(rig.fake.calls.all.count { $0.hasPrefix("AcquireNotify") } == 1)
    try await rig.settle()
    _ = try await stranger.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus.Peer", "Ping")
    #expect(overheard == 0)
    signals.cancel()
    stranger.close()
  }

  @Test("Of a characteristic that only indicates, and where bluetoothd gives no socket, they come by signals")
  @LoopActor
  func signals() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    for (number, notifies) in [(1, false), (2, true)] {
      let peer = try await rig.sighted(.sample("00:AA:03:00:00:0\(number)", notifies: notifies))
      peer.notifierRefusal = DBusError(name: "org.bluez.Error.NotPermitted", message: "Notify acquired")
      let visitor = try await listening(rig, peer)
      rig.fake.notify([9], of: Self.uuid, from: peer)
      #expect(try await visitor.events.next() == .notified(Self.hear, [9]))
      #expect(rig.fake.calls.all.count { $0.hasPrefix("AcquireNotify") } == number - 1)
    }
  }

  @Test("When bluetoothd ends the socket, what it had sent is heard, and what follows comes by signals")
  @LoopActor
  func ended() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted(.sample(notifies: true))
    let visitor = try await listening(rig, peer)
    for number in 0..<40 as Range<UInt8> { rig.fake.notify([number], of: Self.uuid, from: peer) }
    peer.endNotifiers()
    try await rig.fake.until { peer.subscriptions == [Self.uuid] }
    rig.fake.notify([40], of: Self.uuid, from: peer)
    _ = try await visitor.events.first { $0 == .notified(Self.hear, [40]) }
    #expect(heard(visitor) == (0...40).map { [$0] })
    #expect(rig.fake.calls.all.count { $0.hasPrefix("AcquireNotify") } == 1)
  }

  @Test("Two connections to a peer hear the same socket, until the last of them leaves")
  @LoopActor
  func shared() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let server = try await rig.serve(Service())
    let peer = try await rig.sighted(.sample(notifies: true))
    let first = try await listening(rig, peer)
    let second = try await listening(rig, peer)
    // Its peer uses us, too: the link goes on without connections.
    await rig.fake.write([1], to: Service.put, from: rig.fake.devicePath(peer.address), mtu: nil)
    rig.fake.notify([1], of: Self.uuid, from: peer)
    for visitor in [first, second] { #expect(try await visitor.events.next() == .notified(Self.hear, [1])) }
    first.drop()
    _ = try await first.end()
    rig.fake.notify([2], of: Self.uuid, from: peer)
    #expect(try await second.events.next() == .notified(Self.hear, [2]))
    #expect(heard(first) == [[1]])
    second.drop()
    _ = try await second.end()
    try await rig.fake.until { peer.subscriptions.isEmpty }
    #expect(!rig.fake.calls.all.contains { $0.hasPrefix("StopNotify") || $0.hasPrefix("Disconnect") })
    #expect(rig.fake.calls.all.count { $0.hasPrefix("AcquireNotify") } == 1)
    server.close()
  }

  @Test("What a peer said before its link was lost is heard before the end is")
  @LoopActor
  func last() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted(.sample(notifies: true))
    let visitor = try await listening(rig, peer)
    for number in 0..<100 as Range<UInt8> { rig.fake.notify([number], of: Self.uuid, from: peer) }
    rig.fake.lose(peer)
    #expect(try await visitor.end().contains("was lost"))
    #expect(heard(visitor) == (0..<100).map { [$0] })
    #expect(visitor.events.all.last.map(Self.isEnd) == true)
  }

  @Test("A value that is too long is counted and dropped, and the next one is heard")
  @LoopActor
  func tooLong() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted(.sample(notifies: true))
    let visitor = try await listening(rig, peer)
    rig.fake.notify([UInt8](repeating: 1, count: 513), of: Self.uuid, from: peer)
    rig.fake.notify([UInt8](repeating: 2, count: 512), of: Self.uuid, from: peer)
    #expect(try await visitor.events.next() == .notified(Self.hear, [UInt8](repeating: 2, count: 512)))
    #expect(rig.radio.counters.malformed == 1)
  }

  @Test("A socket that comes when nobody wants it any more is closed at once")
  @LoopActor
  func unwanted() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let server = try await rig.serve(Service())
    let peer = try await rig.sighted(.sample(notifies: true))
    var answer: (@LoopActor () -> Void)?
    peer.onSubscribe = { answer = $1 }
    let visitor = try await rig.visit(peer)
    await rig.fake.write([1], to: Service.put, from: rig.fake.devicePath(peer.address), mtu: nil)
    visitor.link?.subscribe(to: Self.hear)
    try await rig.settle()
    #expect(answer != nil)
    visitor.drop()
    _ = try await visitor.end()
    answer?()
    try await rig.fake.until { peer.subscriptions.isEmpty }
    server.close()
  }
}
