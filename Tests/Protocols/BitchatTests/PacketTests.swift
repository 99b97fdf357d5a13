import Bytes
import Compression
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Encoding of mesh packets")
struct PacketTests {
  static let sender = PeerID(rawValue: 0xBAE4_900C_DD54_F899)

  static func packet(_ payload: [UInt8], version: PacketVersion = .v1) -> Packet {
    Packet(version: version, type: .message, timestamp: 1_755_432_100_123, sender: sender, payload: payload)
  }

  /// A section with these bytes, in a packet whose flags say that it is compressed.
  private func compressed(original: Int, stream: [UInt8], version: PacketVersion = .v2) throws -> [UInt8] {
    let size = withUnsafeBytes(of: UInt32(original).bigEndian) { Array($0) }
    let section = Array(size.suffix(version.lengthBytes)) + stream
    var bytes = try Self.packet([], version: version).encoded()
    let count = withUnsafeBytes(of: UInt32(section.count).bigEndian) { Array($0) }
    bytes.replaceSubrange(12..<12 + version.lengthBytes, with: count.suffix(version.lengthBytes))
    bytes[11] = PacketFlags.compressed.rawValue
    return bytes + section
  }

  @Test("Every combination of header fields is encoded and decoded, and truncated bytes are refused")
  func combinations() throws {
    let (one, two) = (PeerID(rawValue: 1), PeerID(rawValue: 2))
    for version in PacketVersion.allCases {
      for recipient in [nil, one, .everybody] {
        for route in version == .v2 ? [[], [two], [two, one]] : [[]] {
          for signature in [nil, [UInt8](repeating: 0x5A, count: 64)] {
            for isSyncAnswer in [false, true] {
              let packet = Packet(
                version: version, type: .ping, timeToLive: 3, timestamp: .max - 1, sender: Self.sender,
                recipient: recipient, route: route, payload: [1, 2, 3], signature: signature, isSyncAnswer: isSyncAnswer
              )
              let bytes = try packet.encoded()
              #expect(try Packet(decoding: bytes) == packet)
              #expect(try Packet(decoding: bytes + [0, 1, 2]) == packet)
              for count in 0..<bytes.count {
                #expect(throws: PacketError.self) { try PacketView(Array(bytes.prefix(count))) }
              }
            }
          }
        }
      }
    }
  }

  @Test("A packet without recipient, or with a recipient of eight FF bytes, is for everybody")
  func everybody() throws {
    var packet = Self.packet([1])
    #expect(try PacketView(packet.encoded()).recipient == nil)
    packet.recipient = .everybody
    #expect(try PacketView(packet.encoded()).recipient == nil)
    #expect(try PacketView(packet.encoded()).namedRecipient == .everybody)
    packet.recipient = PeerID(rawValue: 7)
    #expect(try PacketView(packet.encoded()).recipient == PeerID(rawValue: 7))
  }

  @Test("A route in version 1, an empty route, and unknown flags are ignored")
  func flags() throws {
    var first = try Self.packet([8, 9]).encoded()
    first[11] = PacketFlags.route.rawValue | 0xE0
    #expect(try Packet(decoding: first) == Self.packet([8, 9]))
    var second = try Self.packet([0, 9], version: .v2).encoded()
    second[11] = PacketFlags.route.rawValue
    second[15] = 1
    #expect(try Packet(decoding: second) == Self.packet([9], version: .v2))
  }

  @Test("Relaying changes only the TTL byte of a packet and preserves its padding")
  func relaying() throws {
    var packet = Self.packet([1, 2, 3])
    packet.type = .noiseEncrypted
    packet.isSyncAnswer = true
    let bytes = try packet.encoded()
    let relayed = try PacketView(bytes).relayed(timeToLive: 6)
    let changed = bytes.indices.filter { bytes[$0] != relayed[$0] }
    #expect(relayed.count == bytes.count)
    #expect(changed == [2])
    #expect(relayed[2] == 6)
  }

  @Test("A signature is checked over the received form, then the uncompressed one; above 64 KiB no others")
  func signedFiles() throws {
    let key = try Vectors.shared.identity("alice").signingKey()
    for count in [10_000, 200_000] {
      let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 * $0 / 7 % 31) }
      var packet = Packet(
        version: .v2, type: .fileTransfer, timestamp: 1_800_000_000_000, sender: PeerID(rawValue: 1), payload: payload)
      let signed = try packet.signed(with: key)
      let received = SignatureCheck(try PacketView(try signed.encoded()), decoded: signed, key: key.publicKey)
      #expect(received.form == .received && received.computed == 1)
      packet.signature = key.sign(try packet.signingPreimage(PayloadSection(plain: payload)))
      let view = try PacketView(try packet.encoded())
      #expect(view.flags.contains(.compressed))
      let plain = SignatureCheck(view, decoded: packet, key: key.publicKey)
      #expect(plain.form == .plain && plain.computed == 2)
      let deflated = try #require(PayloadSection(deflating: payload, version: .v2, level: 6))
      packet.signature = key.sign(try packet.signingPreimage(deflated))
      let wire = try packet.encoded(PayloadSection(plain: payload))
      let other = SignatureCheck(try PacketView(wire), decoded: packet, key: key.publicKey)
      #expect(other.form == (count == 10_000 ? .level6 : nil))
      #expect(other.computed == (count == 10_000 ? 2 : 1))
    }
  }

  @Test("A packet's signature covers every byte except the TTL and the answer flag")
  func signing() throws {
    let key = try Vectors.shared.identity("alice").signingKey()
    let text = Array("The relay on the roof is up again.".utf8)
    for payload in [text, text + text + text + text] {
      let signed = try Self.packet(payload).signed(with: key)
      var moved = signed
      (moved.timeToLive, moved.isSyncAnswer) = (1, true)
      let bytes = try moved.encoded()
      #expect(SignatureCheck(try PacketView(bytes), decoded: moved, key: key.publicKey).form == .received)
      // Each byte before the signature is covered, except time to live and flags.
      for index in 0..<bytes.count - 64 where index != 2 && index != 11 {
        var changed = bytes
        changed[index] ^= 0x40
        guard let view = try? PacketView(changed), let packet = try? Packet(view) else { continue }
        // Some bits of a compressed stream do not change its content. Then the packet equals one from another
        // encoder.
        guard packet != moved else { continue }
        #expect(!SignatureCheck(view, decoded: packet, key: key.publicKey).isValid, "byte \(index)")
      }
    }
  }

  @Test("An unsigned packet is invalid without a signature check, and a forged short one costs one check")
  func unsigned() throws {
    let key = try Vectors.shared.identity("alice").signingKey()
    let packet = Self.packet([1, 2, 3])
    let check = SignatureCheck(try PacketView(packet.encoded()), decoded: packet, key: key.publicKey)
    #expect(check.isValid == false)
    #expect(check.computed == 0)
    var forged = packet
    forged.signature = [UInt8](repeating: 1, count: 64)
    let refused = SignatureCheck(try PacketView(forged.encoded()), decoded: forged, key: key.publicKey)
    #expect(refused.isValid == false)
    #expect(refused.computed == 1)
  }

  @Test("Copies of a packet that differ in TTL, padding and signature have the same wire key")
  func wireKeys() throws {
    var random = SeededRandom(seed: 3)
    let hash = KeyedHash(randomFrom: &random)
    var packet = Self.packet([1, 2, 3])
    packet.signature = [UInt8](repeating: 1, count: 64)
    let bytes = try packet.encoded()
    let key = try PacketView(bytes).wireKey(hash)
    var other = packet
    other.timeToLive = 1
    other.signature = [UInt8](repeating: 2, count: 64)
    #expect(try PacketView(other.encoded(padded: true)).wireKey(hash) == key)
    for index in 0..<bytes.count - 64 where index != 2 {
      var changed = bytes
      changed[index] ^= 1
      guard let view = try? PacketView(changed) else { continue }
      #expect(view.wireKey(hash) != key, "byte \(index)")
    }
    #expect(try PacketView(bytes).wireKey(KeyedHash(randomFrom: &random)) != key)
  }

  @Test("A packet ID depends only on type, sender, time and payload")
  func ids() throws {
    let packet = Self.packet([1, 2, 3])
    var same = packet
    (same.version, same.timeToLive, same.recipient) = (.v2, 1, PeerID(rawValue: 4))
    (same.route, same.signature, same.isSyncAnswer) = ([PeerID(rawValue: 5)], [UInt8](repeating: 1, count: 64), true)
    #expect(PacketID(same) == PacketID(packet))
    let changes: [(inout Packet) -> Void] = [
      { $0.type = .leave }, { $0.sender = PeerID(rawValue: 1) }, { $0.timestamp += 1 }, { $0.payload[0] = 0 },
    ]
    for change in changes {
      var other = packet
      change(&other)
      #expect(PacketID(other) != PacketID(packet))
      #expect(DedupKey(other) != DedupKey(packet))
    }
    #expect(DedupKey(same) == DedupKey(packet))
  }

  @Test("Peer IDs sort like their texts, and only texts of 16 hex digits are accepted as peer IDs")
  func peerIDs() throws {
    let ids = try ["00ffffffffffffff", "0100000000000000", "fe00000000000000", "ff00000000000000"].map {
      try PeerID(text: $0)
    }
    #expect(ids.sorted() == ids)
    for text in ["", "00", "00112233445566", "001122334455667788", "001122334455667g", "+011223344556677"] {
      #expect(throws: WireError.badValue("peer ID")) { try PeerID(text: text) }
    }
    #expect(throws: WireError.badValue("fingerprint")) { try Fingerprint(text: "00") }
  }

  // MARK: Limits

  @Test("A payload of 1,179,760 bytes is accepted; one byte more is refused before allocation")
  func payloadLimit() throws {
    var random = SeededRandom(seed: 2)
    var packet = Self.packet(random.bytes(Limits.payloadBytes), version: .v2)
    let bytes = try packet.encoded()
    #expect(try Packet(decoding: bytes) == packet)
    var claim = Array(bytes.prefix(24))
    claim.replaceSubrange(12..<16, with: withUnsafeBytes(of: UInt32(1_179_761).bigEndian) { Array($0) })
    #expect(throws: PacketError.payloadTooLong(1_179_761)) { try PacketView(claim) }
    packet.payload.append(0)
    #expect(throws: PacketError.payloadTooLong(1_179_761)) { try packet.encoded() }
  }

  @Test("A payload may inflate to 1,179,760 bytes; a declared size of one byte more is refused")
  func inflatedLimit() throws {
    let zeros = [UInt8](repeating: 0, count: Limits.payloadBytes)
    let packet = Self.packet(zeros, version: .v2)
    let bytes = try packet.encoded()
    #expect(bytes.count < 2000)
    #expect(try Packet(decoding: bytes).payload == zeros)
    let stream = try RawDeflate.compress(zeros + [0])
    let claim = try compressed(original: zeros.count + 1, stream: stream)
    #expect(throws: PacketError.originalTooLong(1_179_761)) { try Packet(decoding: claim) }
  }

  @Test("A payload with 230 or more distinct byte values is not compressed, and neither is a fragment")
  func worth() throws {
    func isCompressed(_ packet: Packet) throws -> Bool {
      try PacketView(try packet.encoded()).flags.contains(.compressed)
    }
    let zeros = [UInt8](repeating: 0, count: 5000)
    let (few, many) = ((1...229).map { UInt8($0) }, (1...230).map { UInt8($0) })
    #expect(try isCompressed(Self.packet(zeros)))
    #expect(try isCompressed(Self.packet(few + zeros)))
    #expect(try isCompressed(Self.packet(zeros + few)))
    #expect(try !isCompressed(Self.packet(many + zeros)))
    #expect(try !isCompressed(Self.packet(zeros + many)))
    var fragment = Self.packet(Array(zeros.prefix(400)))
    #expect(try isCompressed(fragment))
    fragment.type = .fragment
    #expect(try !isCompressed(fragment))
  }

  @Test("A declared inflation ratio of up to 1,032 is accepted; a greater one is refused")
  func ratio() throws {
    let stream = try RawDeflate.compress([UInt8](repeating: 0, count: 100_000))
    let most = stream.count * 1032
    #expect(throws: PacketError.ratioTooHigh(original: most + 1, compressed: stream.count)) {
      try Packet(decoding: compressed(original: most + 1, stream: stream))
    }
    #expect(throws: PacketError.notInflated(.wrongSize(expected: most, got: 100_000))) {
      try Packet(decoding: compressed(original: most, stream: stream))
    }
    #expect(try Packet(decoding: compressed(original: 100_000, stream: stream)).payload.count == 100_000)
  }

  @Test("A compressed payload that is empty, truncated, or of another size is refused with a named error")
  func badSections() throws {
    let stream = try RawDeflate.compress([UInt8](repeating: 7, count: 200))
    for version in PacketVersion.allCases {
      let decode = { (original: Int, stream: [UInt8]) in
        try Packet(decoding: compressed(original: original, stream: stream, version: version))
      }
      #expect(throws: PacketError.compressedEmpty) { try decode(200, []) }
      #expect(throws: PacketError.originalEmpty) { try decode(0, [3, 0]) }
      #expect(throws: PacketError.notInflated(.tooLarge(limit: 199))) { try decode(199, stream) }
      #expect(throws: PacketError.notInflated(.wrongSize(expected: 201, got: 200))) { try decode(201, stream) }
      #expect(throws: PacketError.notInflated(.trailing(1))) { try decode(200, stream + [0]) }
      #expect(throws: PacketError.notInflated(.truncated)) { try decode(200, stream.dropLast()) }
      #expect(try decode(200, stream).payload.count == 200)
    }
    var empty = try Self.packet([]).encoded()
    empty[11] = PacketFlags.compressed.rawValue
    #expect(throws: PacketError.compressedEmpty) { try Packet(decoding: empty) }
  }

  @Test("A compressed payload with a wrong zlib checksum is refused")
  func zlibChecksum() throws {
    let text = [UInt8](repeating: 7, count: 200)
    var stream = try ZlibDeflate.compress(text)
    #expect(try Packet(decoding: compressed(original: 200, stream: stream)).payload == text)
    stream[stream.count - 1] ^= 1
    #expect(throws: PacketError.self) { try Packet(decoding: compressed(original: 200, stream: stream)) }
  }

  @Test("A packet whose fields its version cannot encode is refused")
  func unwritable() {
    var routed = Self.packet([1])
    routed.route = [Self.sender]
    #expect(throws: PacketError.needsVersion2) { try routed.encoded() }
    routed.version = .v2
    routed.route = [PeerID](repeating: Self.sender, count: 256)
    #expect(throws: PacketError.routeTooLong(256)) { try routed.encoded() }
    routed.route.removeLast()
    #expect(throws: Never.self) { try routed.encoded() }
    var random = SeededRandom(seed: 4)
    #expect(throws: PacketError.needsVersion2) { try Self.packet(random.bytes(65_536)).encoded() }
    #expect(throws: Never.self) { try Self.packet(random.bytes(65_535)).encoded() }
    var signed = Self.packet([1])
    signed.signature = [1, 2, 3]
    #expect(throws: PacketError.badSignature(3)) { try signed.encoded() }
  }

  @Test("A sync request that names fragments is compressed; a filter alone and ciphertext are not")
  func denseness() throws {
    func isCompressed(_ payload: [UInt8], _ type: MessageType) throws -> Bool {
      let packet = Packet(type: type, timestamp: 1, sender: PeerID(rawValue: 1), payload: payload)
      return try PacketView(packet.encoded()).flags.contains(.compressed)
    }
    let same = [UInt8](repeating: 7, count: 400)
    let filter = try SyncFilter(p: 7, m: 1 << 20, bits: same)
    let fragments = try (0..<60 as Range<UInt64>).map { try FragmentID(reading: PeerID(rawValue: $0).bytes) }
    #expect(try isCompressed(SyncRequest(filter: filter, types: .fragment, fragments: fragments).bytes, .requestSync))
    #expect(try !isCompressed(SyncRequest(filter: filter, types: .message).bytes, .requestSync))
    #expect(try isCompressed(same, .requestSync), "the same number means text in dialect S")
    #expect(try !isCompressed(same, .noiseEncrypted))
  }

  @Test(
    "A payload of at least 100 bytes is compressed if it is repetitive and becomes shorter"
  )
  func compression() throws {
    func isCompressed(_ payload: [UInt8]) throws -> Bool {
      try PacketView(Self.packet(payload).encoded()).flags.contains(.compressed)
    }
    let same = [UInt8](repeating: 7, count: 100)
    #expect(try isCompressed(same))
    #expect(try !isCompressed(Array(same.dropLast())))
    // Here 180 of 200 bytes are distinct, which is nine tenths; of 201 the share is less. The rest repeats some of
    // them.
    let different = (0..<180).map { UInt8($0) }
    #expect(try !isCompressed(different + different.prefix(20)))
    #expect(try isCompressed(different + different.prefix(120)))
    // Random bytes of seven bits repeat, but do not compress.
    var random = SeededRandom(seed: 5)
    #expect(try !isCompressed((0..<3).flatMap { _ in Array(Set(random.bytes(60))) }))
  }
}
