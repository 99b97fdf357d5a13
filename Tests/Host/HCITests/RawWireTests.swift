import Bytes
import Glibc
import Loop
import Radio
import TestSupport
import Testing

@testable import HCI

@Suite("Encoding of raw HCI packets")
struct RawWireTests {
  private static func hex(_ text: String) throws -> [UInt8] { try ManagementWireTests.hex(text) }

  @Test("A short value is sent as one HCI packet, and a long one is split at the controller's packet length")
  func packets() {
    let short: [UInt8] = [0x02, 0x40, 0x00, 0x0A, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1B, 0x3F, 0x00, 1, 0, 0]
    #expect(ATTNotification(handle: 0x003F, value: [1, 0, 0]).packets(on: 0x0040, buffers: .least) == [short])
    let value = (0..<509).map { UInt8(truncatingIfNeeded: $0) }
    for length in [27, 251, 516, 1024] {
      let notification = ATTNotification(handle: 0x0102, value: value)
      let packets = notification.packets(on: 0xF001, buffers: LEBuffers(length: length, count: 64))
      #expect(packets.count == (516 + length - 1) / length)
      #expect(notification.packetCount(LEBuffers(length: length, count: 64)) == packets.count)
      // The bits above the handle are the packet's flags.
      #expect(packets.first?[2] == 0x00)
      #expect(packets.dropFirst().allSatisfy { $0[2] == 0x10 })
      for packet in packets {
        let said = Int(packet[3]) | Int(packet[4]) << 8
        #expect(packet[0] == 2 && packet[1] == 1 && said == packet.count - 5)
      }
      #expect(packets.allSatisfy { $0.count - 5 <= length })
      let frame = packets.flatMap { $0.dropFirst(5) }
      #expect(frame.prefix(7) == [0x00, 0x02, 0x04, 0x00, 0x1B, 0x02, 0x01])
      #expect(Array(frame.dropFirst(7)) == value)
    }
  }

  @Test("A raw HCI value is truncated to the MTU and to the maximum length of an attribute")
  func limits() {
    #expect(ATTNotification.limit(mtu: ATT.firstMTU) == 20)
    #expect(ATTNotification.limit(mtu: 514) == 511 && ATTNotification.limit(mtu: 515) == 512)
    #expect(ATTNotification.limit(mtu: 517) == 512)
    #expect(ATTNotification.limit(mtu: 65_535) == 512)
    #expect(ATTNotification.limit(mtu: 0) == 0)
  }

  @Test("The kernel's list of links is decoded with addresses and handles")
  func links() throws {
    let header = "0000 0500"
    let client = "4000 0100 0002 aa00 80 00 0100 00000000"
    let peripheral = "4100 0200 0002 aa00 80 01 0100 01000000"
    let classic = "0b00 0300 0002 aa00 01 00 0100 00000000"
    let unconnected = "4200 0400 0002 aa00 80 00 0500 00000000"
    let ending = "4300 0500 0002 aa00 80 00 0800 00000000"
    let links = try HCILink.list(reading: Self.hex(header + client + peripheral + classic + unconnected + ending))
    #expect(links.map(\.handle) == [0x40, 0x41, 0x0B, 0x42, 0x43])
    #expect(links.prefix(2).map(\.address.description) == ["00:AA:02:00:00:01", "00:AA:02:00:00:02"])
    #expect(links.map { $0.isLE && $0.isConnected && !$0.isCentral } == [true, false, false, false, false])
    #expect(links.map(\.isOutgoing) == [false, true, false, false, false])
    #expect(try HCILink.list(reading: HCILink.question(3).enumerated().map { $0 == 2 ? 0 : $1 }) == [])
    for text in ["", "0000 0100", "0000 ffff"] {
      #expect(caught(WireError.self) { try HCILink.list(reading: Self.hex(text)) } != nil)
    }
    // The requested number of links, and one more.
    let many = [UInt8](repeating: 0, count: 65 * 16)
    #expect(try HCILink.list(reading: [0, 0, 64, 0] + many).count == 64)
    #expect(
      caught(WireError.self) { try HCILink.list(reading: [0, 0, 65, 0] + many) } == .tooLong(field: "links", limit: 64))
  }

  @Test("Reported buffer sizes are limited to 1,024 bytes and 64 packets, and smaller ones than 27 bytes are ignored")
  func buffers() throws {
    func answer(_ text: String) throws -> ControllerEvent? {
      try ControllerEvent(reading: Self.hex("040e07 01 0220 " + text))
    }
    #expect(try answer("00 fb00 08") == .buffers(LEBuffers(length: 251, count: 8)))
    #expect(try answer("00 0000 00") == .buffers(nil))
    #expect(try answer("00 1a00 08") == .buffers(nil))
    #expect(try answer("00 1b00 00") == .buffers(nil))
    #expect(try answer("00 ffff ff") == .buffers(LEBuffers(length: 1024, count: 64)))
    for text in ["01 fb00 08", "00 fb00", "", "00 fb00 08 00"] {
      #expect(caught(WireError.self) { try answer(text) } != nil)
    }
    var information = [UInt8](repeating: 0, count: 92)
    (information[44], information[45], information[46]) = (0xFD, 0x03, 8)
    #expect(try LEBuffers.shared(reading: information) == LEBuffers(length: 1021, count: 8))
    #expect(caught(WireError.self) { try LEBuffers.shared(reading: [1, 2]) } != nil)
  }

  @Test("HCI events for completed packets and ended links are decoded, and other events are ignored")
  func events() throws {
    let two = try ControllerEvent(reading: Self.hex("041309 02 4000 0200 4130 0300"))
    #expect(two == .completed([.init(handle: 0x40, count: 2), .init(handle: 0x41, count: 3)]))
    #expect(try ControllerEvent(reading: Self.hex("040504 00 40f0 13")) == .disconnected(handle: 0x40))
    for text in ["040504 0c 4000 13", "040e07 01 0520 00 fb00 08", "043e02 0a00", "040000"] {
      #expect(try ControllerEvent(reading: Self.hex(text)) == nil)
    }
    for text in [
      "", "04", "0413", "041309 03 4000 0200 4100 0300", "041308 02 4000 0200 4100 03", "021309 02 4000 0200 4100 0300",
      "04130a 02 4000 0200 4100 0300 00", "041308 02 4000 0200 4100 0300", "040503 00 4000", "040505 00 4000 13 00",
      "040504 00 4000",
    ] {
      let bytes = try Self.hex(text)
      #expect(caught(WireError.self) { try ControllerEvent(reading: bytes) } != nil, "\(text)")
    }
  }

  @Test("An HCI socket filter has the kernel's layout of type, events and opcode")
  func filter() throws {
    #expect(try HCIFilter(events: [0x0E], opcode: 0x2002).bytes == Self.hex("10000000 00400000 00000000 0220 0000"))
    #expect(try HCIFilter(events: [0x05, 0x13]).bytes == Self.hex("10000000 20000800 00000000 0000 0000"))
    #expect(try HCIFilter(events: [0x3E, 0x40]).bytes == Self.hex("10000000 00000000 00000040 0000 0000"))
    #expect(HCIFilter.nothing.bytes == [UInt8](repeating: 0, count: 16))
  }

  @Test("A received HCI packet longer than the limit is reported as too long")
  func truncated() throws {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    let (near, far) = (HCISocket(owning: ends[0]), HCISocket(owning: ends[1]))
    #expect(near.receive(limit: 8) == .nothing)
    try far.send([UInt8](0..<9))
    try far.send([UInt8](0..<8))
    #expect(near.receive(limit: 8) == .tooLong)
    #expect(near.receive(limit: 8) == .packet([UInt8](0..<8)))
    #expect(near.receive(limit: 8) == .nothing)
    // A socket outside the kernel's Bluetooth has no filter and no list of links.
    #expect(caught(HCIError.self) { try near.listen(to: .nothing) } != nil)
  }

  @Test("Reading links or buffers from a socket that is not a Bluetooth socket gives an error")
  @LoopActor
  func noBluetooth() {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    let (near, far) = (HCISocket(owning: ends[0]), HCISocket(owning: ends[1]))
    #expect(caught(HCIError.self) { try near.links(of: 1) } != nil)
    #expect(near.sharedBuffers(of: 1) == nil)
    withExtendedLifetime(far) {}
  }
}
