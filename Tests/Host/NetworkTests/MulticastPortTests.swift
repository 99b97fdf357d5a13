import Loop
import Network
import TestSupport
import Testing

@Suite("Multicast on one network interface", .serialized)
struct MulticastPortTests {
  init() { EventLoop.shared.runInBackground() }

  /// The multicast groups 239.255.255.250 and 228.227.226.225.
  private static let groups = [IPAddress.v4(0xEFFF_FFFA), .v4(0xE4E3_E2E1)]
  private static let all = IPAddress.v6(high: 0xFF02 << 48, low: 0xC)

  /// The present interfaces of this machine, as `InterfaceMonitor` first reports them.
  @LoopActor
  static func interfaces() async throws -> [NetworkInterface] {
    let box = Mailbox<[NetworkInterface]>()
    let monitor = try InterfaceMonitor { box.put($0) }
    defer { monitor.close() }
    return try await box.next()
  }

  @LoopActor
  private static func loopback() async throws -> NetworkInterface {
    try #require(try await interfaces().first { $0.isLoopback })
  }

  @LoopActor
  private static func port(
    _ index: UInt32, _ number: UInt16, _ box: Mailbox<Datagram>, source: IPAddress = .loopback4,
    to groups: [IPAddress]? = nil
  ) throws -> MulticastPort {
    try MulticastPort(interface: index, source: source, groups: groups ?? Self.groups, port: number) { box.put($0) }
  }

  @Test("A datagram to either multicast group reaches every port on the interface, and a reply returns to the sender")
  @LoopActor
  func bothGroups() async throws {
    let index = try await Self.loopback().index
    let (atFirst, atSecond) = (Mailbox<Datagram>(), Mailbox<Datagram>())
    let first = try Self.port(index, 19_001, atFirst)
    let second = try Self.port(index, 19_001, atSecond)
    defer {
      first.close()
      second.close()
    }
    for group in first.groups {
      try first.send([1, 2, 3], to: group)
      let datagram = try await atSecond.next()
      #expect(datagram.bytes == [1, 2, 3] && datagram.source == first.local)
      // The sender receives it as well.
      #expect(try await atFirst.next() == datagram)
    }
    try second.send([4], to: try #require(first.local))
    #expect(try await atFirst.next() == Datagram([4], from: try #require(second.local)))
    #expect(first.counters.sent == 2 && first.counters.received == 3)
  }

  @Test("A datagram of 1,500 bytes arrives; a longer one is neither sent nor received")
  @LoopActor
  func lengths() async throws {
    let index = try await Self.loopback().index
    let box = Mailbox<Datagram>()
    let port = try Self.port(index, 19_002, box)
    defer { port.close() }
    try port.send([UInt8](repeating: 5, count: 1500), to: port.groups[0])
    #expect(try await box.next().bytes == [UInt8](repeating: 5, count: 1500))
    #expect(throws: NetworkError.datagramTooLong) {
      try port.send([UInt8](repeating: 5, count: 1501), to: port.groups[0])
    }
    let local = try #require(port.local)
    try sendPlainly(1501, to: local)
    try sendPlainly(0, to: local)
    #expect(try await box.next().bytes == [])
    #expect(port.counters.tooLong == 1 && port.counters.unsent == 1)
  }

  @Test("A multicast port that is paused reads nothing and can be resumed; a closed one sends nothing")
  @LoopActor
  func pause() async throws {
    let index = try await Self.loopback().index
    let (box, other) = (Mailbox<Datagram>(), Mailbox<Datagram>())
    let paused = try Self.port(index, 19_003, box)
    let awake = try Self.port(index, 19_003, other)
    defer { awake.close() }
    paused.pauseReading(true)
    try awake.send([1], to: awake.groups[0])
    _ = try await other.next()
    #expect(box.all.isEmpty)
    paused.pauseReading(false)
    #expect(try await box.next().bytes == [1])
    paused.close()
    #expect(throws: NetworkError.noSuchAddress) { try paused.send([1], to: awake.groups[0]) }
  }

  @Test("IPv6 multicast works on each interface with a link-local address, and replies contain its zone")
  @LoopActor
  func linkLocal() async throws {
    let usable = try await Self.interfaces().filter(\.isUsable)
    for interface in usable {
      guard let source = interface.addresses.first(where: { $0.isIPv6 && $0.isLinkLocal }) else { continue }
      let box = Mailbox<Datagram>()
      let port = try Self.port(interface.index, 19_004, box, source: source, to: [Self.all])
      defer { port.close() }
      try port.send([7], to: port.groups[0])
      let datagram = try await box.next()
      #expect(datagram.bytes == [7] && datagram.source.address == source && datagram.source.zone == interface.index)
    }
  }

  @Test("A missing interface, or an address that is not a multicast group, gives a named error")
  @LoopActor
  func errors() throws {
    let box = Mailbox<Datagram>()
    #expect(throws: NetworkError.noSuchAddress) { try Self.port(4_000_000, 19_005, box) }
    #expect(throws: NetworkError.unsupported) { try Self.port(1, 19_005, box, to: [.loopback4]) }
    #expect(throws: NetworkError.unsupported) { try Self.port(1, 19_005, box, to: [Self.all]) }
  }
}
