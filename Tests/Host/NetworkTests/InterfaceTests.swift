import Loop
import TestSupport
import Testing

@testable import Network

@Suite("Network interfaces", .serialized)
struct InterfaceTests {
  init() { EventLoop.shared.runInBackground() }

  // MARK: Messages

  private static func message(_ type: UInt16, flags: UInt16 = 0, _ body: [UInt8]) -> [UInt8] {
    let size = 16 + body.count
    let zeros = [UInt8](repeating: 0, count: 8)
    let padding = [UInt8](repeating: 0, count: (4 - size % 4) % 4)
    return [UInt32(size).nativeBytes, type.nativeBytes, flags.nativeBytes, zeros, body, padding].flatMap { $0 }
  }

  private static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
    let padding = [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
    return [UInt16(4 + value.count).nativeBytes, type.nativeBytes, value, padding].flatMap { $0 }
  }

  private static func link(
    _ index: UInt32, _ name: String, flags: UInt32 = 0x1043, isNew: Bool = true, family: UInt8 = 0
  ) -> [UInt8] {
    let head = [[family, 0, 0, 0], index.nativeBytes, flags.nativeBytes, UInt32(0).nativeBytes].flatMap { $0 }
    return message(isNew ? 16 : 17, head + attribute(3, Array(name.utf8) + [0]))
  }

  private static func address(
    _ index: UInt32, _ address: IPAddress, flags: UInt8 = 0x80, isNew: Bool = true, longFlags: UInt32? = nil
  ) -> [UInt8] {
    let family: UInt8 = address.isIPv6 ? 10 : 2
    let head = [[family, 24, flags, 0], index.nativeBytes, attribute(1, address.bytes)].flatMap { $0 }
    let more = longFlags.map { attribute(8, $0.nativeBytes) } ?? []
    return message(isNew ? 20 : 21, head + more)
  }

  private let own = IPAddress.v4(0xC0A8_0117)
  private let linkLocal = IPAddress.v6(high: 0xFE80 << 48, low: 5)

  @Test("Kernel messages add and remove network interfaces and addresses")
  func follow() {
    var table = InterfaceTable()
    _ = table.apply((Self.link(2, "wlan0") + Self.address(2, own) + Self.address(2, linkLocal))[...])
    let whole = NetworkInterface(
      index: 2, name: "wlan0", isLoopback: false, isUsable: true, addresses: [own, linkLocal])
    #expect(table.interfaces == [whole])
    _ = table.apply(Self.address(2, own, isNew: false)[...])
    #expect(table.interfaces.first?.addresses == [linkLocal])
    // The interface is up but has no carrier (IFF_RUNNING is missing), so it is not usable.
    _ = table.apply(Self.link(2, "wlan0", flags: 0x1003)[...])
    #expect(table.interfaces.first?.isUsable == false)
    _ = table.apply(Self.link(2, "wlan0", isNew: false)[...])
    #expect(table.interfaces.isEmpty)
  }

  @Test("An IPv6 address is used only after the kernel's duplicate address detection")
  func tentative() {
    var table = InterfaceTable()
    _ = table.apply((Self.link(2, "eth0") + Self.address(2, linkLocal, flags: 0xC0))[...])
    #expect(table.interfaces.first?.addresses == [])
    _ = table.apply(Self.address(2, linkLocal, longFlags: 0x80)[...])
    #expect(table.interfaces.first?.addresses == [linkLocal])
    _ = table.apply(Self.address(2, linkLocal, flags: 0, longFlags: 0x88)[...])
    #expect(table.interfaces.first?.addresses == [])
  }

  @Test("A bridge message, or an address of an interface without a name, adds no network interface")
  func bridge() {
    var table = InterfaceTable()
    _ = table.apply((Self.link(3, "br0", family: 7) + Self.address(4, own))[...])
    #expect(table.interfaces.isEmpty)
  }

  @Test("The end of a netlink dump, an error and an interrupted dump are reported")
  func outcomes() {
    var table = InterfaceTable()
    #expect(table.apply(Self.message(3, Int32(0).nativeBytes)[...]).dumpEnded)
    #expect(table.apply(Self.message(2, Int32(-16).nativeBytes)[...]).mustRestart)
    #expect(!table.apply(Self.message(2, Int32(0).nativeBytes)[...]).mustRestart)
    #expect(table.apply(Self.message(16, flags: 0x10, [])[...]).mustRestart)
  }

  @Test("Truncated and mutated netlink messages cause no crash, and the interface table stays within its limits")
  func hostile() {
    let whole = Self.link(2, "eth0") + Self.address(2, own) + Self.address(2, linkLocal, longFlags: 0x80)
    var table = InterfaceTable()
    for count in 0...whole.count { _ = table.apply(whole.prefix(count)) }
    var dice = Dice(5)
    for _ in 0..<20_000 {
      var bytes = whole
      for _ in 0..<3 { bytes[dice.below(bytes.count)] = UInt8(dice.below(256)) }
      _ = table.apply(bytes[...])
    }
    for index in 0..<1000 { _ = table.apply(Self.link(UInt32(index), "x")[...]) }
    for index in 0..<100 { _ = table.apply(Self.address(999, .v4(UInt32(index)))[...]) }
    #expect(table.interfaces.count <= InterfaceTable.links)
    #expect(table.interfaces.allSatisfy { $0.addresses.count <= InterfaceTable.addressesOfOne })
  }

  // MARK: The kernel

  @Test("The monitor lists the loopback interface with its addresses, and its state equals what it reported")
  @LoopActor
  func kernel() async throws {
    let box = Mailbox<[NetworkInterface]>()
    let monitor = try InterfaceMonitor { box.put($0) }
    defer { monitor.close() }
    let found = try await box.next()
    let loopback = try #require(found.first { $0.isLoopback })
    #expect(loopback.name == "lo" && loopback.addresses.contains(.loopback4))
    #expect(monitor.interfaces == found && monitor.losses == 0)
  }
}
