import Bytes
import Common
import Testing

@testable import HCI

@Suite("SDP queries for the RFCOMM channel of a profile")
struct ChannelQueryTests {
  static let service = BluetoothUUID(high: 0x0BBF_C6EF_14CC_4AB2, low: 0xAF63_B92E_8872_27AE)
  /// The attribute lists that bluetoothd 5.66 and 5.82 returned for a profile on channel 1, without the SDP header.
  static let lists: [UInt8] = [
    0x35, 0x13, 0x35, 0x11, 0x09, 0x00, 0x04, 0x35, 0x0C, 0x35, 0x03, 0x19, 0x01, 0x00, 0x35, 0x05, 0x19, 0x00, 0x03,
    0x08, 0x01,
  ]

  static func answer(_ part: [UInt8], state: [UInt8] = [], transaction: UInt16 = 7) -> [UInt8] {
    var body = ByteWriter()
    body.u16be(UInt16(part.count))
    body.append(part)
    body.u8(UInt8(state.count))
    body.append(state)
    var packet = ByteWriter()
    packet.u8(0x07)
    packet.u16be(transaction)
    packet.u16be(UInt16(body.bytes.count))
    packet.append(body.bytes)
    return packet.bytes
  }

  @Test("The SDP request asks for the protocol list of one UUID")
  func request() {
    let query = ChannelQuery(Self.service, transaction: 7)
    let wanted =
      "060007001b" + "35111c0bbfc6ef14cc4ab2af63b92e887227ae" + "ffff" + "3503090004" + "00"
    #expect(Hex.encode(query.request) == wanted)
  }

  @Test("The RFCOMM channel is read from the SDP record, also from a split answer and among other protocols")
  func channels() throws {
    var query = ChannelQuery(Self.service, transaction: 7)
    #expect(try query.handle(Self.answer(Self.lists)) == .channel(1))
    query = ChannelQuery(Self.service, transaction: 7)
    #expect(try query.handle(Self.answer(Array(Self.lists.prefix(9)), state: [1, 2])) == .unfinished)
    #expect(Hex.encode(query.request).hasSuffix("020102"))
    #expect(try query.handle(Self.answer(Array(Self.lists.dropFirst(9)), transaction: 8)) == .channel(1))
    query = ChannelQuery(Self.service, transaction: 7)
    #expect(try query.handle(Self.answer([0x35, 0])) == .notServed)
  }

  @Test("A malformed SDP answer, or an answer to another request, is an error")
  func malformed() {
    let good = Self.answer(Self.lists)
    for count in 0..<good.count {
      #expect(throws: WireError.self) { try Self.judge(Array(good.prefix(count))) }
    }
    #expect(throws: WireError.badValue("transaction")) { try Self.judge(Self.answer(Self.lists, transaction: 9)) }
    #expect(throws: WireError.badValue("continuation state")) { try Self.judge(Self.answer([], state: [1])) }
    #expect(throws: WireError.badValue("kind")) { try Self.judge([0x01, 0, 7, 0, 2, 0, 3]) }
    // Sequences within sequences.
    var deep: [UInt8] = []
    for _ in 0..<40 { deep.insert(contentsOf: [0x36, UInt8(0), UInt8(deep.count)], at: 0) }
    #expect(throws: WireError.self) { try Self.judge(Self.answer(deep)) }
    // Channel 0 and channel 31 do not exist.
    for channel in [UInt8(0), 31] {
      #expect(throws: Never.self) {
        let progress = try Self.judge(Self.answer(Self.lists.dropLast() + [channel]))
        #expect(progress == .notServed)
      }
    }
  }

  @Test("An SDP answer in endless parts is refused at 4,096 bytes")
  func endless() throws {
    var query = ChannelQuery(Self.service, transaction: 0)
    let part = [UInt8](repeating: 0x35, count: 1024)
    for number in 0..<4 {
      #expect(try query.handle(Self.answer(part, state: [1], transaction: UInt16(number))) == .unfinished)
    }
    #expect(throws: WireError.tooLong(field: "lists", limit: 4096)) {
      try query.handle(Self.answer(part, state: [1], transaction: 4))
    }
  }

  @discardableResult
  static func judge(_ answer: [UInt8]) throws -> ChannelQuery.Progress {
    var query = ChannelQuery(service, transaction: 7)
    return try query.handle(answer)
  }
}

@Suite("Kernels that crash at outgoing BR/EDR connections")
struct ClassicSafetyTests {
  @Test("Of the kernel branches, only 6.12, and 6.1 before 6.1.187, are safe for outgoing BR/EDR connections")
  func branches() {
    #expect(ClassicSafety.known(KernelVersion(6, 1, 176)) == .safe)
    #expect(ClassicSafety.known(KernelVersion(6, 1, 187)) == .faulty(KernelVersion(6, 1, 187)))
    #expect(ClassicSafety.known(KernelVersion(6, 1, 192)) == .faulty(KernelVersion(6, 1, 192)))
    #expect(ClassicSafety.known(KernelVersion(6, 12, 118)) == .safe)
    for version in [KernelVersion(6, 6, 1), KernelVersion(6, 17, 0), KernelVersion(6, 12, 0, .vendor)] {
      #expect(ClassicSafety.known(version) == .untried(version))
    }
    #expect(ClassicSafety.known(nil) == .untried(nil))
  }

  @Test("Only a safe kernel has no warning sentence for the operator")
  func sentences() {
    #expect(ClassicSafety.safe.shortfall == nil)
    for safety in [ClassicSafety.faulty(KernelVersion(6, 1, 192)), .untried(nil), .off] {
      #expect(safety.shortfall?.hasPrefix("This machine opens no streams to peers") == true)
    }
  }
}
