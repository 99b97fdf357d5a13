import Bytes
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Encoding of dialect S")
struct SeedTests {
  private func meaning(_ type: UInt8, _ payload: [UInt8], _ state: PacketMeaning.SeedState = .init()) -> PacketMeaning {
    PacketMeaning(type: MessageType(rawValue: type), payload: payload, state: state)
  }

  private func fragment(_ index: UInt16, _ total: UInt16) throws -> [UInt8] {
    try Fragment(id: FragmentID(rawValue: 5), index: index, total: total, type: .message, slice: [1]).bytes
  }

  @Test("Packet types 11 and 12 of dialect S have a meaning that depends on the session state")
  func states() {
    let (waits, session) = (
      PacketMeaning.SeedState(awaitsHandshakeResponse: true), PacketMeaning.SeedState(hasSession: true)
    )
    let response = [UInt8](repeating: 1, count: 96)
    #expect(meaning(0x11, response, waits) == .seedHandshakeResponse)
    #expect(meaning(0x11, response) == .ciphertext)
    #expect(meaning(0x11, response + [1], waits) == .ciphertext)
    #expect(meaning(0x12, response, session) == .seedCiphertext)
    #expect(meaning(0x12, response) == .drop)
  }

  @Test("A packet type that dialect S does not use has the meaning that it has in dialect L")
  func live() {
    let shared: Set<UInt8> = [4, 5, 6, 7, 0x0A, 0x0B, 0x0C, 0x11, 0x12, 0x20, 0x21]
    for type in UInt8.min...UInt8.max where !shared.contains(type) {
      #expect(meaning(type, [1, 2, 3]) == .live)
    }
    for type in shared where type != 0x11 && type != 7 { #expect(meaning(type, [1, 2, 3]) == .drop) }
  }

  @Test("A packet has 1 to 1,024 fragments in dialect S, 2 to 1,024 in mid-2025's form, and up to 10,000 in dialect L")
  func fragmentBounds() throws {
    for type in [5, 6] as [UInt8] {
      #expect(meaning(type, try fragment(0, 1)) == .drop)
      #expect(meaning(type, try fragment(1, 2)) == .fragment2025)
      #expect(meaning(type, try fragment(1, 1024)) == .fragment2025)
      #expect(meaning(type, try fragment(1, 1025)) == .drop)
    }
    for type in [0x0A, 0x0B, 0x0C] as [UInt8] {
      #expect(meaning(type, try fragment(0, 1)) == .seedFragment)
      #expect(meaning(type, try fragment(1023, 1024)) == .seedFragment)
      #expect(meaning(type, try fragment(1, 1025)) == .drop)
    }
    #expect(meaning(0x20, try fragment(9999, 10_000)) == .fragment)
    #expect(meaning(0x20, Array(try fragment(0, 1).prefix(12))) == .drop)
  }

  @Test("The nickname in a leave of dialect S is text of at most 255 bytes")
  func leaving() {
    #expect(meaning(7, [0x61]) == .seedLeave)
    #expect(meaning(7, [0xFF]) == .drop)
    #expect(meaning(7, [UInt8](repeating: 0x61, count: 255)) == .seedLeave)
    #expect(meaning(7, [UInt8](repeating: 0x61, count: 256)) == .drop)
  }

  @Test("A dialect S message with flag 80 or trailing bytes is refused, and flag 40 may be followed by a channel")
  func messages() throws {
    var message = SeedMessage(timestamp: 1, id: "i", sender: "s", text: "t")
    var bytes = message.bytes
    #expect(throws: WireError.trailing(1)) { try SeedMessage(reading: bytes + [0]) }
    bytes[0] = 0x80
    #expect(throws: WireError.badValue("flags")) { try SeedMessage(reading: bytes) }
    message.isBridged = true
    #expect(try SeedMessage(reading: message.bytes) == message)
    message.channel = "#c"
    message.mentions = []
    #expect(try SeedMessage(reading: message.bytes) == message)
    for count in 0..<message.bytes.count {
      let cut = Array(message.bytes.prefix(count))
      guard let read = try? SeedMessage(reading: cut) else { continue }
      // A prefix that ends before the channel decodes as a bridged message.
      #expect(read.channel == nil && read.isBridged)
    }
  }

  @Test("A dialect S text too long for its length field is cut between two Unicode scalars")
  func cut() throws {
    let long = String(repeating: "é", count: 200)
    var message = SeedMessage(timestamp: 1, id: long, sender: long, text: String(repeating: "é", count: 40_000))
    message.mentions = [String](repeating: long, count: 300)
    let read = try SeedMessage(reading: message.bytes)
    #expect(read.id == String(long.prefix(127)))
    #expect(read.sender == String(long.prefix(127)))
    #expect(read.text == String(repeating: "é", count: 32_767))
    #expect(read.mentions?.count == 255)
  }

  @Test("A dialect S hello with unknown flags or versions, or without a version, is refused")
  func hellos() throws {
    let good = Vectors.shared.legacy2025.versionHello.bytes
    #expect(meaning(0x20, good) == .versionHello)
    for (index, value, name) in [(0, 2, "flags"), (2, 0, "versions"), (2, 3, "versions"), (1, 0, "versions")] {
      var bad = good
      bad[index] = UInt8(value)
      #expect(throws: WireError.badValue(name)) { try VersionHello(reading: bad) }
      #expect(meaning(0x20, bad) == .drop)
    }
    #expect(throws: WireError.trailing(1)) { try VersionHello(reading: good + [0]) }
    #expect(throws: WireError.tooLong(field: "hello", limit: 255)) {
      try VersionHello(versions: [.v1], preferred: 1, clientVersion: String(repeating: "1", count: 256), platform: "")
    }
    #expect(throws: WireError.tooLong(field: "ack", limit: 255)) {
      try VersionAck(agreed: 1, serverVersion: "1.0.0", platform: "", reason: String(repeating: "1", count: 256))
    }
  }

  @Test("A version answer with unknown flags, or a rejection value other than 0 or 1, is refused")
  func acks() throws {
    let good = Vectors.shared.legacy2025.versionAck.bytes
    var bad = good
    bad[0] = 4
    #expect(throws: WireError.badValue("flags")) { try VersionAck(reading: bad) }
    bad = good
    bad[bad.count - 1] = 2
    #expect(throws: WireError.badValue("rejected")) { try VersionAck(reading: bad) }
    #expect(meaning(0x21, bad) == .drop)
    #expect(meaning(0x21, Array("{}".utf8)) == .versionAck)
    let capable = try VersionAck(agreed: 1, serverVersion: "1.0.0", platform: "linux", capabilities: ["relay"])
    #expect(try VersionAck(reading: capable.bytes) == capable)
    #expect(meaning(0x21, capable.bytes) == .versionAck)
  }

  @Test("A courier envelope is recognised only if tag, expiry and ciphertext have correct lengths")
  func courier() throws {
    let good = try #require(Vectors.shared.dialectDisambiguation.cases.first { $0.meaning == "courier" }).payload.bytes
    #expect(meaning(4, good) == .courier)
    for (index, value) in [(0, 2), (2, 15), (2, 17), (19, 3), (21, 7), (30, 4)] as [(Int, UInt8)] {
      var bad = good
      bad[index] = value
      #expect(meaning(4, bad) == .drop)
    }
    #expect(meaning(4, Array(good.prefix(40))) == .drop)
  }

  @Test("A UUID in dialect S is read from 32 hex digits, with or without dashes")
  func uuids() throws {
    let uuid = try MessageUUID(text: "6e1b2c3d000040008000aabbccddeeff")
    #expect(uuid.description == "6E1B2C3D-0000-4000-8000-AABBCCDDEEFF")
    #expect(throws: WireError.badValue("UUID")) { try MessageUUID(text: "6e1b") }
  }

  @Test("A dialect S packet that would need more than 1,024 fragments is not fragmented")
  func tooMany() throws {
    let packet = Packet(
      version: .v2, type: .message, timestamp: 1, sender: PeerID(rawValue: 2),
      payload: (0..<70_000).map { UInt8(truncatingIfNeeded: $0 &* 197 ^ $0 >> 5) })
    let view = try PacketView(packet.encoded())
    let (id, narrow) = (FragmentID(rawValue: 1), 64 + 42)
    let count = try #require(FragmentPlan(view, id: id, frameLimit: narrow)).fragments.count
    let packets = SeedFragments.packets(of: view, numbers: .seed, id: id, frameLimit: narrow)
    #expect((packets == nil) == (count > 1024))
    #expect(SeedFragments.packets(of: view, numbers: .seed, id: id, frameLimit: 512) != nil)
  }
}
