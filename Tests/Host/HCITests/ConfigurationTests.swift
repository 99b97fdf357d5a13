import Air
import Bytes
import Glibc
import Loop
import Radio
import TestSupport
import Testing

@testable import HCI

@Suite("Client configuration writes read from a raw HCI socket")
struct ConfigurationTests {
  init() { EventLoop.shared.runInBackground() }

  private static let anna = BluetoothAddress(0xA)
  private static let bert = BluetoothAddress(0xB)

  /// An ACL data packet, as the controller sends it to the kernel.
  private static func packet(
    link: UInt16 = 0x40, flags: UInt8 = 0x20, channel: UInt16 = 4, opcode: UInt8 = 0x12, attribute: UInt16 = 0x26,
    _ value: [UInt8]
  ) -> [UInt8] {
    var writer = ByteWriter()
    writer.u8(2)
    writer.u16le(link | UInt16(flags) << 8)
    writer.u16le(UInt16(7 + value.count))
    writer.u16le(UInt16(3 + value.count))
    writer.u16le(channel)
    writer.u8(opcode)
    writer.u16le(attribute)
    writer.append(value)
    return writer.bytes
  }

  /// Packets that the filter must reject, because they are not writes of one or two bytes by a peer.
  private static let others = [
    packet([]), packet([1, 0, 0]), packet([UInt8](repeating: 1, count: 244)), packet(flags: 0x00, [1, 0]),
    packet(flags: 0x10, [1, 0]), packet(channel: 5, [1, 0]), packet(channel: 0x0400, [1, 0]),
    packet(opcode: 0x1B, [1, 0]),
    packet(opcode: 0x16, [1, 0]), [2], [], [1, 2, 0x20, 0], [2, 0x40, 0x20],
  ]

  @Test("The kernel's packet filter admits only short writes of peers and events")
  func program() throws {
    var ends: [Int32] = [-1, -1]
    try #require(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends) == 0)
    let (near, far) = (HCISocket(owning: ends[0]), HCISocket(owning: ends[1]))
    try far.admit(ConfigurationWrite.program)
    let wanted = [
      Self.packet([1, 0]), Self.packet([1]), Self.packet(opcode: 0x52, [2, 0]), [0x04, 0x05, 4, 0, 0x40, 0, 0x13],
    ]
    for packet in Self.others + wanted where !packet.isEmpty { _ = try? near.send(packet) }
    for packet in wanted { #expect(far.receive(limit: 258) == .packet(packet)) }
    #expect(far.receive(limit: 258) == .nothing)
  }

  @Test("A complete CCCD write is parsed, and other packets are ignored")
  func reading() throws {
    for opcode in [0x12, 0x52] as [UInt8] {
      let write = try ConfigurationWrite(reading: Self.packet(link: 0x0EAB, opcode: opcode, attribute: 0x1234, [2, 0]))
      #expect(write?.link == 0x0EAB && write?.attribute == 0x1234 && write?.value == 2)
    }
    #expect(try ConfigurationWrite(reading: Self.packet([1]))?.value == 1)
    #expect(try ConfigurationWrite(reading: Self.packet([1, 2]))?.value == 0x0201)
    for packet in Self.others { #expect((try? ConfigurationWrite(reading: packet)) ?? nil == nil, "\(packet)") }
    let whole = Self.packet([1, 0])
    for count in whole.indices { #expect((try? ConfigurationWrite(reading: Array(whole.prefix(count)))) ?? nil == nil) }
  }

  /// A socket for CCCD writes whose packets the test supplies.
  @LoopActor
  private final class Listener: ConfigurationSocket {
    var arrivals: [HCISocket.Arrival] = []
    var isPrivileged: @LoopActor () -> Bool = { false }
    private(set) var listened: [Bool] = []
    private var body: (@LoopActor () -> Void)?

    func listenToConfigurations() throws(HCIError) { listened.append(isPrivileged()) }
    func receive(limit: Int) -> HCISocket.Arrival { arrivals.isEmpty ? .nothing : arrivals.removeFirst() }
    func watch(_ body: @escaping @LoopActor () -> Void) -> Registration {
      self.body = body
      return Registration { [weak self] in self?.body = nil }
    }

    func arrive(_ packet: [UInt8]) {
      arrivals.append(.packet(packet))
      body?()
    }
  }

  @LoopActor
  private final class Bench {
    let controller = FakeController()
    let listener = Listener()
    let seen = Mailbox<SeenConfiguration>()
    let hci: KernelHCI
    private var watch: Registration?

    init() throws {
      controller.links = [HCILink(handle: 0x40, address: anna), HCILink(handle: 0x41, address: bert)]
      listener.isPrivileged = { [controller] in controller.isPrivileged }
      hci = KernelHCI(
        scheduler: VirtualTime(), makeSocket: { [controller] _ in controller },
        makeListener: { [listener] _ in listener },
        privilege: controller.privilege)
      watch = hci.onConfiguration { [seen] in seen.put($0) }
      try hci.open(3)
    }

    func last(_ address: BluetoothAddress, _ attribute: UInt16 = 0x26) -> ClientConfiguration? {
      hci.configuration(of: attribute, by: address, on: 3)?.configuration
    }
  }

  @Test("The last value that a client wrote to each CCCD is stored until its link ends")
  @LoopActor
  func last() async throws {
    let bench = try Bench()
    #expect(bench.listener.listened == [true], "CAP_NET_RAW is in effect while the filter is set, once")
    #expect(!bench.controller.isPrivileged)
    #expect(bench.last(Self.anna) == nil)
    bench.listener.arrive(Self.packet([1, 0]))
    let first = bench.hci.configuration(of: 0x26, by: Self.anna, on: 3)
    #expect(first?.configuration == .notifications)
    // A repeated value counts as a further write.
    bench.listener.arrive(Self.packet([1, 0]))
    #expect(bench.hci.configuration(of: 0x26, by: Self.anna, on: 3)?.number != first?.number)
    // Packets that wait in the kernel count, too.
    bench.listener.arrivals.append(.packet(Self.packet([0, 0])))
    #expect(bench.last(Self.anna) == .nothing)
    bench.listener.arrive(Self.packet(link: 0x41, attribute: 0x29, [2]))
    #expect(bench.last(Self.bert) == nil && bench.last(Self.bert, 0x29) == .indications)
    #expect(bench.last(BluetoothAddress(0xC)) == nil)
    // bluetoothd refuses any other value.
    bench.listener.arrive(Self.packet([3, 0]))
    #expect(bench.last(Self.anna) == .nothing)
    bench.listener.arrive([0x04, 0x05, 4, 0, 0x40, 0, 0x13])
    #expect(bench.last(Self.anna) == nil && bench.last(Self.bert, 0x29) == .indications)
    _ = try await bench.seen.first { $0 == SeenConfiguration(.indications, of: 0x29, by: Self.bert, on: 3) }
    #expect(bench.seen.all.count == 4)
    bench.hci.closeAll()
    #expect(bench.last(Self.bert, 0x29) == nil)
  }

  @Test("The stored CCCD values are limited in number for each client and in the number of links")
  @LoopActor
  func limits() throws {
    let bench = try Bench()
    for attribute in 0..<1000 as Range<UInt16> { bench.listener.arrive(Self.packet(attribute: attribute, [1, 0])) }
    #expect(bench.last(Self.anna, UInt16(ConfigurationWatch.limit - 1)) == .notifications)
    #expect(bench.last(Self.anna, UInt16(ConfigurationWatch.limit)) == nil)
    bench.listener.arrive(Self.packet(attribute: 0, [0, 0]))
    #expect(bench.last(Self.anna, 0) == .nothing)
    for link in 0x100..<0x300 as Range<UInt16> { bench.listener.arrive(Self.packet(link: link, [1, 0])) }
    bench.controller.links = [HCILink(handle: 0x2FF, address: Self.bert)]
    #expect(bench.last(Self.bert) == nil)
  }

  @Test("Values are still sent by raw HCI if the CCCD writes of clients cannot be read")
  @LoopActor
  func blind() throws {
    let controller = FakeController()
    controller.links = [HCILink(handle: 0x40, address: Self.anna)]
    let hci = KernelHCI(
      scheduler: VirtualTime(), makeSocket: { _ in controller },
      makeListener: { (_) throws(HCIError) in throw HCIError(EPERM, in: "setsockopt") }, privilege: controller.privilege
    )
    try hci.open(0)
    #expect(hci.configuration(of: 0x26, by: Self.anna, on: 0) == nil)
    #expect(hci.send(ATTNotification(handle: 0x25, value: [1]), to: Self.anna, on: 0) { _ in } == .accepted)
    // The check is repeated after the socket broke.
    let bench = try Bench()
    bench.listener.arrive(Self.packet([1, 0]))
    bench.listener.arrivals.append(.broken(.noController))
    #expect(bench.last(Self.anna) == nil)
  }
}
