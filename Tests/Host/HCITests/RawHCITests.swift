import Air
import Bytes
import Glibc
import Loop
import Radio
import TestSupport
import Testing

@testable import HCI

@Suite("A notification is put into packets for the controller")
struct RawHCITests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A short value is one packet, and a long one is cut as the controller takes it")
  func packets() {
    let short: [UInt8] = [0x02, 0x40, 0x00, 0x0A, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1B, 0x3F, 0x00, 1, 0, 0]
    #expect(ATTNotification(handle: 0x003F, value: [1, 0, 0]).packets(on: 0x0040, buffers: .least) == [short])
    let value = (0..<509).map { UInt8(truncatingIfNeeded: $0) }
    for length in [27, 251, 516, 1024] {
      let packets = ATTNotification(handle: 0x0102, value: value)
        .packets(on: 0xF001, buffers: LEBuffers(length: length, count: 64))
      #expect(packets.count == (516 + length - 1) / length)
      // Bits above the handle are the packet's own.
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

  @Test("A value is no longer than the link and an attribute allow")
  func limits() {
    #expect(ATTNotification.limit(mtu: 23) == 20)
    #expect(ATTNotification.limit(mtu: 517) == 512)
    #expect(ATTNotification.limit(mtu: 65_535) == 512)
    #expect(ATTNotification.limit(mtu: 0) == 0)
  }

  @Test("The kernel's list of links is read, and which of them are clients")
  func links() throws {
    let header = "0000 0300"
    let client = "4000 0100 0002 aa00 80 00 0100 00000000"
    let peripheral = "4100 0200 0002 aa00 80 01 0100 01000000"
    let classic = "0b00 0300 0002 aa00 01 00 0100 00000000"
    let links = try HCILink.list(reading: ManagementWireTests.hex(header + client + peripheral + classic))
    #expect(links.map(\.handle) == [0x40, 0x41, 0x0B])
    #expect(links.map(\.address.description) == ["00:AA:02:00:00:01", "00:AA:02:00:00:02", "00:AA:02:00:00:03"])
    #expect(links.map(\.isClient) == [true, false, false])
    #expect(try HCILink.list(reading: HCILink.question(3).enumerated().map { $0 == 2 ? 0 : $1 }) == [])
    for text in ["", "0000 0100", "0000 4100", "0000 ffff"] {
      #expect(caught(WireError.self) { try HCILink.list(reading: ManagementWireTests.hex(text)) } != nil)
    }
  }

  @Test("What a controller says of its buffers is believed within reason")
  func buffers() throws {
    func answer(_ text: String) throws -> LEBuffers? {
      try LEBuffers.answer(reading: ManagementWireTests.hex("040e07 01 0220 " + text))
    }
    #expect(try answer("00 fb00 08") == LEBuffers(length: 251, count: 8))
    #expect(try answer("00 0000 00") == nil)
    #expect(try answer("00 1a00 08") == nil)
    #expect(try answer("00 ffff ff") == LEBuffers(length: 1024, count: 64))
    for text in ["01 fb00 08", "00 fb00", ""] {
      #expect(caught(WireError.self) { try answer(text) } != nil)
    }
    #expect(caught(WireError.self) { try LEBuffers.answer(reading: [4, 0x0F, 0, 0, 0, 0]) } != nil)
    var information = [UInt8](repeating: 0, count: 92)
    (information[44], information[45], information[46]) = (0xFD, 0x03, 8)
    #expect(try LEBuffers.shared(reading: information) == LEBuffers(length: 1021, count: 8))
    #expect(caught(WireError.self) { try LEBuffers.shared(reading: [1, 2]) } != nil)
  }

  @Test("A controller is asked once for its buffers; until it has answered, the least is assumed")
  @LoopActor
  func asking() async throws {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    let (near, far) = (HCISocket(owning: ends[0]), HCISocket(owning: ends[1]))
    var made: [UInt16] = []
    let hci = KernelHCI { index in
      made.append(index)
      return near
    }
    try hci.open(1)
    try hci.open(1)
    #expect(made == [1])
    #expect(far.receive(limit: 64) == .packet([0x01, 0x02, 0x20, 0x00]))
    #expect(hci.buffers(of: 1) == .least && hci.buffers(of: 0) == .least)
    try far.send([0x04, 0x0E, 0x07, 0x01, 0x02, 0x20, 0x00, 0xFB, 0x00, 0x08])
    try await until { hci.buffers(of: 1) != .least }
    #expect(hci.buffers(of: 1) == LEBuffers(length: 251, count: 8))
    // Nothing more is listened to.
    try far.send([0x04, 0x0E, 0x07, 0x01, 0x02, 0x20, 0x00, 0x1B, 0x00, 0x01])
    try hci.send([[0x02, 1, 2]], to: 1)
    #expect(far.receive(limit: 64) == .packet([0x02, 1, 2]))
    #expect(hci.buffers(of: 1) == LEBuffers(length: 251, count: 8))
    // What is no socket of the kernel's has no list of links.
    #expect(caught(HCIError.self) { try hci.links(of: 1) } != nil)
  }

  @Test("How many packets a controller is through with is read, for the link in question")
  func completions() throws {
    let two = try ManagementWireTests.hex("041309 02 4000 0200 4100 0300")
    #expect(try LEBuffers.completed(on: 0x40, reading: two) == 2)
    #expect(try LEBuffers.completed(on: 0x1041, reading: two) == 3)
    #expect(try LEBuffers.completed(on: 0x42, reading: two) == 0)
    for text in ["", "0413", "041309 03 4000 0200 4100 0300", "040e09 02 4000 0200 4100 0300"] {
      let bytes = try ManagementWireTests.hex(text)
      #expect(caught(WireError.self) { try LEBuffers.completed(on: 0x40, reading: bytes) } != nil)
    }
  }

  @Test("No more is sent than the controller takes; the rest when it is through with some, or says nothing for 200 ms")
  @LoopActor
  func pacing() async throws {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    let (near, far) = (HCISocket(owning: ends[0]), HCISocket(owning: ends[1]))
    let time = VirtualTime()
    let hci = KernelHCI(scheduler: time) { _ in near }
    try hci.open(0)
    _ = far.receive(limit: 64)
    // It did not answer: one packet at a time.
    let packets: [[UInt8]] = (0..<4).map { [0x02, 0x40, $0 == 0 ? 0 : 0x10, 1, 0, $0] }
    try hci.send(packets, to: 0)
    #expect(far.receive(limit: 64) == .packet(packets[0]))
    #expect(far.receive(limit: 64) == .nothing)
    try far.send([0x04, 0x13, 5, 1, 0x41, 0, 1, 0])
    try far.send([0x04, 0x13, 5, 1, 0x40, 0, 1, 0])
    try await until { far.receive(limit: 64) == .packet(packets[1]) }
    #expect(far.receive(limit: 64) == .nothing)
    time.advance(by: .milliseconds(199))
    #expect(far.receive(limit: 64) == .nothing)
    time.advance(by: .milliseconds(1))
    #expect(far.receive(limit: 64) == .packet(packets[2]))
    time.advance(by: .milliseconds(200))
    #expect(far.receive(limit: 64) == .packet(packets[3]))
    // What waits has a limit.
    let many = [[UInt8]](repeating: [0x02, 0x40, 0, 0, 0], count: 129)
    #expect(caught(HCIError.self) { try hci.send(many, to: 0) } == .failed("too many packets wait"))
  }

  /// Waits, turn by turn of the loop.
  @LoopActor
  private func until(_ condition: () -> Bool) async throws {
    let deadline = EventLoop.shared.now.advanced(by: Patience.limit)
    while !condition() {
      guard EventLoop.shared.now < deadline else { throw HCIError.failed("it did not come") }
      let next = Mailbox<Bool>()
      let timer = EventLoop.shared.schedule(after: .milliseconds(1)) { next.put(true) }
      _ = try await next.next()
      timer.cancel()
    }
  }

  @Test("A kernel that opens nothing says why")
  @LoopActor
  func refused() {
    let hci = KernelHCI { (_) throws(HCIError) in throw HCIError(EPERM, in: "bind") }
    #expect(caught(HCIError.self) { try hci.open(0) } == .denied("the kernel refuses"))
    #expect(caught(HCIError.self) { try hci.send([[1]], to: 0) } == .denied("the kernel refuses"))
    #expect(HCIError(ENODEV, in: "bind") == .noController)
    #expect(HCIError(EAFNOSUPPORT, in: "socket").description.contains("no Bluetooth sockets"))
  }
}
