import BitchatWire
import Bytes
import Crypto
import Testing

@testable import Bitchat

@Suite("Mesh packets embedded in Nostr messages")
struct EmbeddedPacketTests {
  private let vectors = Vectors.shared
  private let time: UInt64 = 1_755_432_100_000

  private func message(_ text: String = "hi") throws -> NoisePayload {
    .privateMessage(try PrivateMessage(id: MessageID("6E1B2C3D-0000-4000-8000-AABBCCDDEEFF"), text: text))
  }

  /// The text of a packet that is not as it should be.
  private func text(_ packet: Packet) throws -> String {
    EmbeddedPacket.mark + Base64URL.encode(try packet.encoded(padded: true))
  }

  @Test("The embedded packets of the vectors are read, and written again with equal bytes")
  func published() throws {
    let alice = try vectors.identity("alice").peerId
    let bob = try vectors.identity("bob").peerId
    let rows = vectors.nostrEmbedded
    #expect(rows.count == 2)
    for row in rows {
      let embedded = try EmbeddedPacket(text: row.content)
      #expect(embedded.sender.description == alice)
      #expect(try embedded.text() == row.content)
      guard case .plain(let payload) = embedded.content else { throw WireError.badValue("form") }
      if let bytes = row.payload?.bytes { #expect(payload.bytes == bytes) }
      switch row.name {
      case "pm_to_bob":
        #expect(embedded.recipient?.description == bob)
        #expect(try message("hi bob") == payload)
      default:
        #expect(embedded.recipient == nil)
        let id = try MessageID("6E1B2C3D-0000-4000-8000-AABBCCDDEEFF")
        #expect(payload == .delivered(id))
      }
    }
  }

  @Test("An embedded packet that the iOS app has compressed is read")
  func compressed() throws {
    let long = String(repeating: "the same words ", count: 16)
    let packet = Packet(
      type: .noiseEncrypted, timestamp: time, sender: PeerID(rawValue: 1), recipient: PeerID(rawValue: 2),
      payload: try message(long).bytes)
    let section = try #require(PayloadSection(deflating: packet.payload, version: .v1, level: 5))
    let text = EmbeddedPacket.mark + Base64URL.encode(try packet.encoded(section))
    let plain = EmbeddedPacket.Content.plain(try message(long))
    #expect(try EmbeddedPacket(text: text).content == plain)
  }

  @Test("A sealed embedded message is opened only by its recipient, and shows its sender's key")
  func sealed() throws {
    var random = SeededRandom(seed: 3)
    let sender = X25519.PrivateKey(randomFrom: &random)
    let recipient = X25519.PrivateKey(randomFrom: &random)
    let other = X25519.PrivateKey(randomFrom: &random)
    let sealed = try EmbeddedPacket(
      sealing: message(), from: sender, to: recipient.publicKey, timestamp: time, randomFrom: &random)
    let read = try EmbeddedPacket(text: sealed.text())
    #expect(read == sealed)
    #expect(read.sender == PeerID(noiseKey: sender.publicKey))
    #expect(read.recipient == PeerID(noiseKey: recipient.publicKey))
    let opened = try read.opened(with: recipient)
    #expect(try message() == opened.payload)
    #expect(opened.sender == sender.publicKey)
    #expect(throws: EmbeddedPacketError.notOpened) { try read.opened(with: other) }
    // Another sender in the packet, which the seal does not cover.
    guard case .sealed(let bytes) = sealed.content else { throw WireError.badValue("form") }
    let forged = Packet(
      type: .noiseEncrypted, timestamp: time, sender: PeerID(noiseKey: other.publicKey),
      recipient: sealed.recipient, payload: [0] + bytes)
    let relabelled = try EmbeddedPacket(text: text(forged))
    #expect(throws: EmbeddedPacketError.otherSender) { try relabelled.opened(with: recipient) }
    let plain = try EmbeddedPacket(message(), from: PeerID(rawValue: 1), to: nil, timestamp: time)
    #expect(try plain.opened(with: recipient).sender == nil)
  }

  @Test("An embedded text with a wrong form, packet or payload is refused with a named error")
  func refused() throws {
    let good = Packet(
      type: .noiseEncrypted, timestamp: time, sender: PeerID(rawValue: 1), payload: try message().bytes)
    #expect(throws: Never.self) { try EmbeddedPacket(text: text(good)) }
    func changed(_ change: (inout Packet) -> Void) throws -> String {
      var packet = good
      change(&packet)
      return try text(packet)
    }
    let long = EmbeddedPacket.mark + String(repeating: "A", count: EmbeddedPacket.textLimit)
    let cases: [(String, EmbeddedPacketError)] = [
      ("hello", .otherText), ("BITCHAT1:AA", .otherText), (long, .tooLong), (EmbeddedPacket.mark + "A*", .notBase64),
      (EmbeddedPacket.mark, .badPacket(.tooShort(0))), (try changed { $0.version = .v2 }, .otherPacket),
      (try changed { $0.type = .noiseHandshake }, .otherPacket),
      (try changed { $0.signature = [UInt8](repeating: 0, count: 64) }, .otherPacket),
      (try changed { $0.payload = [] }, .badPayload(.empty)),
      (try changed { $0.payload = [0x7F] }, .badPayload(.unknownType(0x7F))),
      (try changed { $0.payload = [0x21, 1, 1, 1, 0, 2, 32] + [UInt8](repeating: 9, count: 32) }, .unsupportedPayload),
    ]
    for (text, error) in cases {
      #expect(throws: error) { try EmbeddedPacket(text: text) }
    }
  }
}
