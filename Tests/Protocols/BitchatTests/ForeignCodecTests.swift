import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Random packets that the independent codec bitchat-protocol 0.2.0 encodes to bytes whose hash is in the file. The
/// suite `clients` of `make e2e` makes the same packets and the same hash with that codec (`clients/agree.py`).
@Suite("Comparison with the codec of the package bitchat-protocol")
struct ForeignCodecTests {
  private struct Expected: Decodable {
    let seed: UInt64
    let count: Int
    let signingKey: String
    let sha256: String
  }

  private static let types: [MessageType] = [
    .announce, .message, .leave, .noiseHandshake, .noiseEncrypted, .fragment, .requestSync, .fileTransfer,
  ]

  private let expected: Expected

  init() throws {
    let url = Bundle.module.bundleURL.appendingPathComponent("Vectors/bitchat-protocol.json")
    expected = try JSONDecoder().decode(Expected.self, from: Data(contentsOf: url))
  }

  @Test("The foreign codec and ours encode 10,000 packets to the same bytes, and decode the same fields")
  func agrees() throws {
    var dice = Dice(expected.seed)
    let signingKey = try Ed25519.PublicKey(Hex.decode(expected.signingKey))
    var all = ByteWriter(capacity: expected.count * 400)
    for number in 0..<expected.count {
      let packet = try Self.packet(&dice, signingKey)
      let bytes = try packet.encoded(padded: false)
      #expect(try Packet(decoding: bytes) == packet, "packet \(number)")
      all.u32be(UInt32(bytes.count))
      all.append(bytes)
    }
    #expect(Hex.encode(SHA256.hash(all.bytes)) == expected.sha256)
  }

  private static func packet(_ dice: inout Dice, _ signingKey: Ed25519.PublicKey) throws -> Packet {
    let version: PacketVersion = dice.below(2) == 0 ? .v1 : .v2
    let type = types[dice.below(types.count)]
    let timeToLive = UInt8(dice.below(8))
    let timestamp = UInt64(dice.below(1 << 42))
    let sender = try peer(&dice)
    let recipient = dice.below(2) == 1 ? try peer(&dice) : nil
    let hops = version == .v2 ? dice.below(5) : 0
    let route = try (0..<hops).map { _ in try peer(&dice) }
    let signature = dice.below(2) == 1 ? dice.bytes(64) : nil
    let isAnswer = dice.below(4) == 0
    let payload = try Self.payload(&dice, type, signingKey)
    return Packet(
      version: version, type: type, timeToLive: timeToLive, timestamp: timestamp, sender: sender, recipient: recipient,
      route: route, payload: payload, signature: signature, isSyncAnswer: isAnswer)
  }

  private static func payload(_ dice: inout Dice, _ type: MessageType, _ signingKey: Ed25519.PublicKey) throws
    -> [UInt8]
  {
    switch type {
    case .announce:
      let nickname = Hex.encode(dice.bytes(dice.below(20)))
      let noiseKey = try X25519.PublicKey(dice.bytes(32))
      let count = dice.below(11)
      let neighbours = try (0..<count).map { _ in try peer(&dice) }
      return try roundTrip(
        Announcement(
          nickname: nickname, noiseKey: noiseKey, signingKey: signingKey, neighbours: count == 0 ? nil : neighbours))
    case .noiseEncrypted:
      let id = try BitchatWire.MessageID(Hex.encode(dice.bytes(16)))
      let text = Hex.encode(dice.bytes(dice.below(20)))
      var writer = ByteWriter()
      writer.u8(0x01)
      try PrivateMessage(id: id, text: text).write(to: &writer)
      return writer.bytes
    case .requestSync:
      let p = 1 + dice.below(32)
      let m = UInt32(1 + dice.below(1 << 31))
      let filter = try SyncFilter(p: p, m: m, bits: dice.bytes(dice.below(400)))
      let types = dice.below(2) == 1 ? SyncTypes(rawValue: UInt64(1 + dice.below(255))) : nil
      let since = dice.below(2) == 1 ? UInt64(dice.below(1 << 41)) : nil
      return try roundTrip(SyncRequest(filter: filter, types: types, since: since))
    default:
      return dice.bytes(dice.below(600))
    }
  }

  /// The encoded bytes of a value, after a check that they decode to the value.
  private static func roundTrip<Value: WireValue & Equatable>(_ value: Value) throws -> [UInt8] {
    var writer = ByteWriter()
    value.write(to: &writer)
    var reader = ByteReader(writer.bytes)
    #expect(try Value(reading: &reader) == value)
    return writer.bytes
  }

  private static func peer(_ dice: inout Dice) throws -> PeerID {
    var reader = ByteReader(dice.bytes(PeerID.size))
    return try PeerID(reading: &reader)
  }
}
