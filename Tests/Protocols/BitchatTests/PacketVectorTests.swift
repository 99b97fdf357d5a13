import Bytes
import Compression
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Observed results of the originals for the same bytes; facts: bitchat.md section 13.
@Suite("Bitchat vectors: packets")
struct PacketVectorTests {
  let vectors = Vectors.shared

  /// Packets whose fields are in the file; the other packets have their own tests.
  static let rows = Vectors.shared.packets.filter { $0.version != nil }

  @Test("The tests cover every section of the Bitchat vector file")
  func sections() throws {
    let read = Set(Vectors.CodingKeys.allCases.map(\.rawValue))
    #expect(try Vectors.sectionNames() == read.union(Vectors.others))
  }

  @Test(
    "Each recorded Noise key gives the recorded fingerprint and peer ID", arguments: ["alice", "bob", "carol", "dave"])
  func identities(name: String) throws {
    let identity = try vectors.identity(name)
    let key = try identity.noiseKey()
    #expect(Fingerprint(noiseKey: key).description == identity.fingerprintHex)
    #expect(try Fingerprint(text: identity.fingerprintHex).peerID.description == identity.peerId)
    #expect(PeerID(noiseKey: key).description == identity.peerId)
    #expect(try PeerID(text: identity.peerId.uppercased()) == PeerID(noiseKey: key))
    #expect(try identity.signingKey().publicKey.bytes == identity.ed25519Public.bytes)
  }

  @Test(
    "Padding of a packet has the block size and length of the recorded table", arguments: Vectors.shared.padding.cases)
  func padding(row: Vectors.PaddingSection.Row) {
    #expect(Padding.block(for: row.len) == row.block)
    #expect(Padding.paddedCount(of: row.len) == row.paddedLen)
    var bytes = [UInt8](repeating: 0xFF, count: row.len)
    Padding.pad(&bytes)
    #expect(bytes.count == row.paddedLen)
    let added = Set(bytes[row.len...])
    let expected: Set<UInt8> = row.paddedLen > row.len ? [UInt8(row.paddedLen - row.len)] : []
    #expect(added == expected)
  }

  @Test("Only valid padding is removed from a packet", arguments: Vectors.shared.padding.unpad)
  func unpadding(row: Vectors.PaddingSection.Unpad) {
    #expect(Array(row.in.bytes.prefix(Padding.unpaddedCount(of: row.in.bytes))) == row.out.bytes)
  }

  @Test("Each recorded packet is decoded to the recorded fields", arguments: rows)
  func decoding(row: Vectors.PacketRow) throws {
    let view = try PacketView(row.wire.bytes)
    let packet = try Packet(view)
    #expect(packet.version.rawValue == row.version)
    #expect(packet.type.rawValue == row.type)
    #expect(packet.timeToLive == row.ttl)
    #expect(packet.timestamp == row.timestamp)
    #expect(packet.sender.description == row.sender)
    #expect(packet.recipient?.description == row.recipient)
    #expect(packet.route.map(\.description) == row.route ?? [])
    #expect(packet.payload == row.payload.bytes)
    #expect(packet.signature == row.signature?.bytes)
    #expect(packet.isSyncAnswer == row.isRsr)
    #expect(view.flags.contains(.compressed) == row.compressed)
    #expect((view.count < row.wire.bytes.count) == row.padded)
    #expect(view.version == packet.version)
    #expect(view.type == packet.type)
    #expect(view.timeToLive == packet.timeToLive)
    #expect(view.timestamp == packet.timestamp)
    #expect(view.sender == packet.sender)
    #expect(view.route == packet.route)
    #expect(view.namedRecipient == packet.recipient)
    #expect(view.signature.map { Array($0) } == packet.signature)
  }

  @Test(
    "A recorded uncompressed packet is encoded unchanged, and a compressed one decodes to the same packet",
    arguments: rows)
  func encoding(row: Vectors.PacketRow) throws {
    let packet = try Packet(decoding: row.wire.bytes)
    let encoded = try packet.encoded()
    if row.compressed == false { #expect(encoded == row.wire.bytes) }
    #expect(try Packet(decoding: encoded) == packet)
    #expect(try PacketView(encoded).flags.contains(.compressed) == row.compressed)
    #expect(packet.type.isPadded == row.padded)
  }

  @Test("The signing preimage of a recorded packet is the padded packet with TTL 0", arguments: rows)
  func preimages(row: Vectors.PacketRow) throws {
    let view = try PacketView(row.wire.bytes)
    #expect(view.signingPreimage == row.signingBytes?.bytes)
    let packet = try Packet(view)
    if row.compressed == false { #expect(try packet.signingPreimage() == row.signingBytes?.bytes) }
  }

  /// The golden of a contract suite has an invented signature, and the signature of a packet under an invented key is
  /// not from these keys.
  @Test("Each recorded signature is valid for the sender's key and no other", arguments: Vectors.signedRows)
  func signatures(row: Vectors.PacketRow) throws {
    let view = try PacketView(row.wire.bytes)
    let packet = try Packet(view)
    let key = try vectors.identity(of: packet.sender).signingKey()
    #expect(SignatureCheck(view, decoded: packet, key: key.publicKey).form == .received)
    let other = try #require(vectors.identities.values.first { $0.peerId != packet.sender.description }).signingKey()
    #expect(!SignatureCheck(view, decoded: packet, key: other.publicKey).isValid)
    guard row.compressed == false else { return }
    var unsigned = packet
    unsigned.signature = nil
    #expect(try unsigned.signed(with: key).signature == row.signature?.bytes)
  }

  @Test("Each recorded packet has the recorded sync ID and deduplication key", arguments: rows)
  func identifiers(row: Vectors.PacketRow) throws {
    let packet = try Packet(decoding: row.wire.bytes)
    #expect(PacketID(packet).description == row.syncId)
    #expect(try PacketID(reading: PacketID(packet).bytes) == PacketID(packet))
    #expect(DedupKey(packet).description == row.dedupId)
  }

  @Test("A recorded payload in zlib format is inflated")
  func zlibFormat() throws {
    let row = try vectors.packet("v1_zlib_wrapped_payload_android_accepts")
    #expect(try Packet(decoding: row.wire.bytes).payload == row.payload.bytes)
  }

  @Test(
    "A packet is padded to the lengths of the recorded boundary table",
    arguments: Vectors.shared.packetsPaddingBoundaries)
  func boundaries(row: Vectors.BoundaryRow) throws {
    // Header, sender and recipient have 30 bytes. The payload has too many distinct bytes to be compressed, or is
    // random.
    var random = SeededRandom(seed: 1)
    let packet = Packet(
      type: .noiseEncrypted, timestamp: 1_755_432_100_123, sender: PeerID(rawValue: 1), recipient: PeerID(rawValue: 2),
      payload: random.bytes(row.unpaddedLen - 30))
    #expect(try packet.encoded(padded: false).count == row.unpaddedLen)
    #expect(try packet.encoded().count == row.wireLen)
    #expect(try Packet(decoding: packet.encoded()) == packet)
  }

  @Test("Each recorded invalid packet is refused with the name of its error", arguments: Vectors.shared.packetsInvalid)
  func invalid(row: Vectors.InvalidRow) throws {
    let expected: [String: PacketError] = [
      "too_short": .tooShort(21), "version_0": .badVersion(0), "version_3": .badVersion(3),
      "truncated_payload": .truncated(needed: 36, available: 35),
      "signature_flag_without_signature": .truncated(needed: 100, available: 36),
      "compressed_empty": .compressedEmpty, "compression_bomb": .ratioTooHigh(original: 60_000, compressed: 1),
      "declared_size_mismatch": .notInflated(.tooLarge(limit: 199)),
      "v2_payload_over_limit": .payloadTooLong(1_179_761),
    ]
    let error = try #require(expected[row.name])
    #expect(throws: error) { try Packet(decoding: row.wire.bytes) }
    let described = PacketDescription(row.wire.bytes).fields.first
    #expect(described == .init("error", error.name))
  }

  @Test(
    "A recorded signature over compressed bytes is valid for the first form that the file names",
    arguments: Vectors.shared.compressedSignatureCases.cases)
  func compressedSignatures(row: Vectors.CompressedSection.Row) throws {
    let view = try PacketView(row.wire.bytes)
    let packet = try Packet(view)
    #expect(packet.payload == row.payload.bytes)
    let names: [String: SignedForm] = ["wire": .received, "zlib6": .level6, "zlib5": .level5, "plain": .plain]
    let first = try #require(row.verifiesWith.first.flatMap { names[$0] })
    let key = try vectors.identity(row.signer).signingKey().publicKey
    let check = SignatureCheck(view, decoded: packet, key: key)
    #expect(check.form == first)
    // Levels 5 and 6 give the same bytes for this text, so there are at most three forms.
    #expect(check.computed <= 3)
    var forged = row.wire.bytes
    forged[forged.count - 1] ^= 1
    let refused = SignatureCheck(try PacketView(forged), decoded: packet, key: key)
    #expect(refused.form == nil)
    #expect((2...3).contains(refused.computed))
  }

  @Test("Recorded public messages have the iOS and Android message IDs of the vectors")
  func messageIDs() throws {
    let ios = try #require(vectors.messageIds.first)
    let sender = try PeerID(text: try #require(ios.sender))
    let id = MessageID.iOS(sender: sender, timestamp: try #require(ios.ts), text: try #require(ios.content))
    #expect(id.text == ios.id)
    let android = try #require(vectors.messageIds.last)
    let row = try vectors.packet(try #require(android.packet))
    let packet = PacketID(try Packet(decoding: row.wire.bytes))
    #expect(packet.description.uppercased() == android.id)
  }
}
