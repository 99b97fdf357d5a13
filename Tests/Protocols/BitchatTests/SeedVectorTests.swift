import Bytes
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Vectors of the older wire formats; facts: bitchat.md section 16.1.
@Suite("Bitchat vectors: dialect S")
struct SeedVectorTests {
  let vectors = Vectors.shared

  @Test(
    "The type and payload of a recorded packet give its recorded meaning",
    arguments: Vectors.shared.dialectDisambiguation.cases)
  func meanings(row: Vectors.Dialects.Row) {
    let meaning = PacketMeaning(type: MessageType(rawValue: row.type), payload: row.payload.bytes)
    #expect(meaning.rawValue == row.meaning)
  }

  @Test("Recorded hello, answer, acknowledgement and receipt are decoded, and encoded unchanged")
  func layouts() throws {
    let rows = vectors.legacy2025
    let hello = try VersionHello(reading: rows.versionHello.bytes)
    #expect((try VersionHello(versions: [.v1], preferred: 1, clientVersion: "1.0.0", platform: "iOS")) == hello)
    #expect(hello.bytes == rows.versionHello.bytes)
    let capable = try VersionHello(reading: rows.versionHelloCaps.bytes)
    #expect(capable.versions == [.v1, .v2])
    #expect(capable.capabilities == ["relay"])
    #expect(capable.bytes == rows.versionHelloCaps.bytes)

    let ack = try VersionAck(reading: rows.versionAck.bytes)
    #expect((try VersionAck(agreed: 1, serverVersion: "1.0.0", platform: "macOS")) == ack)
    #expect(ack.bytes == rows.versionAck.bytes)
    let rejected = try VersionAck(reading: rows.versionAckRejected.bytes)
    #expect(rejected.isRejected == true)
    #expect(rejected.reason == "no common version")
    #expect(rejected.bytes == rows.versionAckRejected.bytes)

    let message = try MessageUUID(text: "6E1B2C3D-0000-4000-8000-AABBCCDDEEFF")
    let delivery = try SeedDeliveryAck(reading: rows.deliveryAck.bytes)
    #expect(delivery.message == message)
    #expect(delivery.hops == 2)
    #expect(delivery.timestamp == 1_755_432_100_123)
    #expect(delivery.nickname == "bob")
    #expect(delivery.recipient.description == "7910d19968f62634")
    #expect(delivery.bytes == rows.deliveryAck.bytes)
    let receipt = try SeedReadReceipt(reading: rows.readReceipt.bytes)
    #expect(receipt.message == message)
    #expect(receipt.timestamp == 1_755_432_100_123)
    #expect(receipt.nickname == "bob")
    #expect(receipt.bytes == rows.readReceipt.bytes)
    #expect(receipt.message.description == "6E1B2C3D-0000-4000-8000-AABBCCDDEEFF")
  }

  @Test("A recorded message of dialect S is decoded, and encoded unchanged", arguments: Vectors.shared.bitchatMessage)
  func messages(row: Vectors.MessageRow) throws {
    if row.name == "seed_v1_dialect_packet_type04" {
      let packet = try Packet(decoding: row.hex.bytes)
      #expect(packet.type == SeedNumbers.seed.message)
      #expect(packet.recipient == .everybody)
      #expect(PacketMeaning(type: packet.type, payload: packet.payload) == .seedMessage)
      #expect(try SeedMessage(reading: packet.payload).bytes == packet.payload)
      #expect(try packet.encoded() == row.hex.bytes)
    } else {
      #expect(try SeedMessage(reading: row.hex.bytes).bytes == row.hex.bytes)
    }
  }

  @Test("All optional fields of a recorded dialect S message are decoded")
  func optionals() throws {
    let row = try #require(vectors.bitchatMessage.first { $0.name == "all_optionals" })
    var message = SeedMessage(timestamp: 42, id: "m", sender: "é\u{0}", text: "hello")
    message = try SeedMessage(reading: row.hex.bytes)
    #expect(message.timestamp == 42)
    #expect(message.id == "m")
    #expect(message.sender == "é")
    #expect(message.text == "hello")
    #expect(message.isRelayed == true)
    #expect(message.isPrivate == true)
    #expect(message.isBridged == false)
    #expect(message.originalSender == "o")
    #expect(message.recipientNickname == "r")
    #expect(message.senderPeerID == "p")
    #expect(message.mentions == ["a", "β"])
  }

  @Test("A packet is fragmented as recorded for mid-2025, and with the packet numbers of dialect S")
  func fragments() throws {
    let inner = try PacketView(vectors.legacy2025.fragmentsInner.bytes)
    let recorded = try vectors.legacy2025.fragmentsType050607.map { try Packet(decoding: $0.bytes) }
    let first = try Fragment(reading: recorded[0].payload)
    let plan = try #require(FragmentPlan(inner, id: first.id, sliceSize: first.slice.count, recipient: nil))
    #expect(SeedFragments.packets(of: plan, numbers: .mid2025) == recorded)
    #expect(try recorded.map { try $0.encoded() } == vectors.legacy2025.fragmentsType050607.map(\.bytes))
    #expect(SeedFragments.packets(of: plan, numbers: .seed)?.map(\.type.rawValue) == [0x0A, 0x0B, 0x0C])
  }

  @Test("The packet numbers of dialect S and of mid-2025's form equal the recorded ones")
  func numbers() {
    let pairs = [
      (SeedNumbers.seed, vectors.legacy2025.numbersInSeed), (.mid2025, vectors.legacy2025.numbersInIosV11V12),
    ]
    for (numbers, recorded) in pairs {
      let ours: [String: MessageType] = [
        "announce": .announce, "message": numbers.message, "deliveryAck": numbers.deliveryAck,
        "readReceipt": numbers.readReceipt, "leave": numbers.leave, "fragmentStart": numbers.fragmentStart,
        "fragmentContinue": numbers.fragmentContinue, "fragmentEnd": numbers.fragmentEnd,
        "noiseHandshakeInit": numbers.handshakeInit, "noiseHandshakeResp": numbers.handshakeResponse,
        "noiseEncrypted": numbers.encrypted, "versionHello": numbers.versionHello, "versionAck": numbers.versionAck,
        "requestSync": .requestSync, "fileTransfer": .fileTransfer,
      ]
      // Two types of mid-2025 have no documented layout.
      let known = recorded.filter { $0.key != "deliveryStatusRequest" && $0.key != "noiseIdentityAnnounce" }
      for (name, number) in known { #expect(ours[name]?.rawValue == number, "\(name)") }
    }
  }
}
