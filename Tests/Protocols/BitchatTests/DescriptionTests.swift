import Bytes
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Descriptions of mesh packets")
struct DescriptionTests {
  private func described(_ name: String) throws -> [String: Described] {
    let row = try Vectors.shared.packet(name)
    return Self.members(PacketDescription(hex: Hex.encode(row.wire.bytes)).fields)
  }

  private static func members(_ fields: [Described.Field]) -> [String: Described] {
    Dictionary(fields.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
  }

  private func says(_ name: String) throws -> [String: Described] {
    guard case .fields(let fields) = try described(name)["says"] else { return [:] }
    return Self.members(fields)
  }

  @Test("Every packet of the vectors has a description without errors", arguments: Vectors.shared.packets)
  func all(row: Vectors.PacketRow) throws {
    let fields = PacketDescription(row.wire.bytes).fields
    #expect(Set(fields.map(\.name)).count == fields.count)
    let members = Self.members(fields)
    #expect(members["error"] == nil)
    #expect(members["problem"] == nil)
    if let id = row.syncId { #expect(members["id"] == .text(id)) }
    if let sender = row.sender { #expect(members["sender"] == .text(sender)) }
  }

  @Test("A description shows a public text, and whether an announcement is signed by the packet's sender")
  func contents() throws {
    #expect(try says("v1_message_signed_compressed")["text"] != nil)
    #expect(try described("v1_message_signed_compressed")["compressedBytes"] == .number(51))
    let announcement = try says("announce_ios_style")
    #expect(announcement["nickname"] == .text("alice"))
    #expect(announcement["isOfSender"] == .flag(true))
    #expect(announcement["isSigned"] == .flag(true))
    #expect(announcement["capabilities"] == .list([0, 3, 5, 8, 9].map { .number($0) }))
    #expect(try says("announce_unknown_tlv_b5")["speaksSeed"] == .flag(true))
    #expect(try described("rsr_response_ttl0")["syncAnswer"] == .flag(true))
    #expect(try described("noise_handshake_msg1_padded")["paddingBytes"] == .number(194))
    #expect(try described("ping")["meaning"] == .text("ping"))
    #expect(try described("unknown_type_0x7a")["meaning"] == .text("unknown"))
  }

  @Test("A description marks an announcement whose key does not match its peer ID, or with a bad signature")
  func forged() throws {
    var bytes = try Vectors.shared.packet("announce_ios_style").wire.bytes
    bytes[14] ^= 1
    guard case .fields(let fields) = Self.members(PacketDescription(bytes).fields)["says"] else {
      throw WireError.badValue("says")
    }
    #expect(Self.members(fields)["isOfSender"] == .flag(false))
    #expect(Self.members(fields)["isSigned"] == .flag(false))
  }

  @Test("Input that is not hexadecimal or not a packet gives a named error, and blanks are ignored")
  func errors() throws {
    #expect(PacketDescription(hex: "01zz").fields.first == .init("error", "NotHex"))
    #expect(PacketDescription(hex: "").fields.first == .init("error", "TooShort"))
    let hex = Hex.encode(try Vectors.shared.packet("ping").wire.bytes)
    #expect(PacketDescription(hex: " \(hex.prefix(6)) \(hex.dropFirst(6))\n") == PacketDescription(hex: hex))
    let text = Packet(type: .message, timestamp: 1, sender: PeerID(rawValue: 2), payload: [0xFF])
    let members = Self.members(PacketDescription(try text.encoded()).fields)
    #expect(members["problem"] == .text("bad value in text"))
  }

  @Test("Packets of dialect S have descriptions")
  func seed() throws {
    let rows = Vectors.shared.legacy2025
    let packets: [(UInt8, [UInt8], String, String)] = [
      (0x05, rows.deliveryAck.bytes, "seed_delivery_ack", "hops"),
      (0x0C, rows.readReceipt.bytes, "read_receipt_2025", "reader"),
      (0x20, rows.versionHello.bytes, "version_hello", "clientVersion"),
      (0x21, rows.versionAckRejected.bytes, "version_ack", "reason"),
      (0x04, Vectors.shared.bitchatMessage[0].hex.bytes, "seed_message", "text"),
      (0x07, [], "seed_leave", ""),
      (0x20, Array(#"{"supportedVersions":[1,2],"platform":"iOS"}"#.utf8), "version_hello", "versions"),
      (0x21, Array(#"{"agreedVersion":1}"#.utf8), "version_ack", "agreed"),
      (
        0x0B, try Fragment(id: FragmentID(rawValue: 1), index: 1, total: 3, type: .courier, slice: [1]).bytes,
        "seed_fragment", "index"
      ),
    ]
    for (type, payload, meaning, field) in packets {
      let packet = Packet(
        type: MessageType(rawValue: type), timestamp: 1, sender: PeerID(rawValue: 2), payload: payload)
      let members = Self.members(PacketDescription(try packet.encoded()).fields)
      #expect(members["meaning"] == .text(meaning))
      guard case .fields(let fields) = members["says"] else { throw WireError.badValue(meaning) }
      #expect(field.isEmpty || Self.members(fields)[field] != nil)
    }
    let sealed = Packet(
      type: SeedNumbers.seed.encrypted, timestamp: 1, sender: PeerID(rawValue: 2), payload: [1, 2, 3])
    let members = Self.members(PacketDescription(try sealed.encoded()).fields)
    #expect(members["meaning"] == .text("seed_ciphertext") && members["payload"] == .text("010203"))
  }
}
