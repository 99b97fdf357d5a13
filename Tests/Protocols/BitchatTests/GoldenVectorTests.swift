import Bytes
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Byte strings from the apps' own tests; facts: bitchat.md section 13.
@Suite("Bitchat vectors from the apps' own tests")
struct GoldenVectorTests {
  private func golden(_ what: String) throws -> [UInt8] {
    let row = Vectors.shared.thirdPartyGolden.first { $0.what.hasPrefix(what) }
    return try #require(row?.hex).bytes
  }

  @Test("The tests cover every app vector in the vector file")
  func all() {
    // These rows about files are not checked here.
    let others = ["File TLV", "private file plaintext", "private media stable id"]
    let known = [
      "v1 packet", "v2 routed", "BitchatMessage minimal", "PrivateMessagePacket", "Noise payload 0x01",
      "FragmentPayload",
      "REQUEST_SYNC", "mesh stable id",
    ]
    for row in Vectors.shared.thirdPartyGolden {
      #expect((known + others).contains { row.what.hasPrefix($0) }, "\(row.what)")
    }
  }

  @Test("The apps' vector of a version 1 packet is decoded and encoded")
  func version1() throws {
    let bytes = try golden("v1 packet")
    let packet = Packet(
      type: .message, timeToLive: 7, timestamp: 0x0102_0304_0506_0708,
      sender: PeerID(rawValue: 0x1011_1213_1415_1617), payload: [0xAA, 0xBB, 0xCC])
    #expect(try Packet(decoding: bytes) == packet)
    #expect(try packet.encoded() == bytes)
  }

  @Test("The apps' vector of a routed version 2 packet is decoded and encoded")
  func version2() throws {
    let bytes = try golden("v2 routed") + [UInt8](repeating: 0x5A, count: 64)
    let packet = Packet(
      version: .v2, type: .noiseEncrypted, timeToLive: 5, timestamp: 42,
      sender: PeerID(rawValue: 0x0102_0304_0506_0708),
      recipient: PeerID(rawValue: 0x1112_1314_1516_1718),
      route: [PeerID(rawValue: 0x2122_2324_2526_2728), PeerID(rawValue: 0x3132_3334_3536_3738)], payload: [0xDE, 0xAD],
      signature: [UInt8](repeating: 0x5A, count: 64))
    #expect(try Packet(decoding: bytes) == packet)
    #expect(try packet.encoded(padded: false) == bytes)
  }

  @Test("The apps' vector of the smallest message of dialect S is decoded and encoded")
  func seedMessage() throws {
    let bytes = try golden("BitchatMessage minimal")
    let message = SeedMessage(timestamp: 0x0102_0304_0506_0708, id: "id", sender: "bob", text: "hi")
    #expect(try SeedMessage(reading: bytes) == message)
    #expect(message.bytes == bytes)
  }

  @Test("The apps' vector of a private message is decoded and encoded, alone and as a Noise payload")
  func privateMessage() throws {
    let message = try PrivateMessage(id: MessageID("m1"), text: "hi")
    let bytes = try golden("Noise payload 0x01")
    let packet: [UInt8] = try golden("PrivateMessagePacket")
    #expect([0x01] + packet == bytes)
    #expect(NoisePayload.privateMessage(message).bytes == bytes)
    #expect(try NoisePayload(reading: bytes) == .privateMessage(message))
  }

  @Test("The apps' vector of a fragment is decoded and encoded")
  func fragment() throws {
    let bytes = try golden("FragmentPayload")
    let fragment = try Fragment(
      id: FragmentID(rawValue: 0x0001_0203_0405_0607), index: 1, total: 3, type: .message, slice: [0xAA, 0xBB])
    #expect(try Fragment(reading: bytes) == fragment)
    #expect(fragment.bytes == bytes)
  }

  @Test("The apps' vector of a sync request is decoded and encoded")
  func request() throws {
    let bytes = try golden("REQUEST_SYNC")
    let request = try SyncRequest(filter: SyncFilter(p: 19, m: 0x0102_0304, bits: [0xAA, 0xBB]))
    #expect(try SyncRequest(reading: bytes) == request)
    #expect(request.bytes == bytes)
  }

  @Test("The message ID of a public message equals the apps' vector")
  func messageID() throws {
    let id = MessageID.iOS(
      sender: try PeerID(text: "0011223344556677"), timestamp: 1_750_000_000_123, text: "hello mesh")
    let bytes: [UInt8] = try Hex.decode(id.text)
    #expect((try golden("mesh stable id")) == bytes)
  }
}
