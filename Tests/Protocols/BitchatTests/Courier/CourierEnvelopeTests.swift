import Bytes
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Encoding of courier envelopes")
struct CourierEnvelopeTests {
  private let vectors = Vectors.shared

  @Test("The iOS app's courier envelope is decoded and encoded unchanged, and has the recipient's tag of its day")
  func vector() throws {
    let row = vectors.courier
    let bob = try X25519.PublicKey(try vectors.identity("bob").noisePublic.bytes)
    let envelope = try CourierEnvelope(reading: row.envelope.bytes)
    #expect(envelope.tag.bytes == row.recipientTag.bytes)
    #expect(envelope.tag == CourierTag(for: bob, day: row.epochDay))
    #expect(envelope.expiry == row.expiry && envelope.copies == row.copies && envelope.prekey == nil)
    #expect(envelope.ciphertext == row.noiseXMessage.bytes)
    #expect(envelope.bytes == row.envelope.bytes)
    #expect(CourierTag.day(of: UInt64(row.epochDay) * 86_400_000 + 86_399_999) == row.epochDay)
  }

  @Test("An envelope for a prekey has the prekey's ID, and opening it throws `prekey`")
  func prekey() throws {
    let tag = CourierTag(for: try X25519.PublicKey([UInt8](repeating: 9, count: 32)), day: 1)
    let envelope = try CourierEnvelope(
      tag: tag, expiry: 5, ciphertext: vectors.prekey.noiseXMessage.bytes, copies: 1, prekey: vectors.prekey.prekeyId)
    let read = try CourierEnvelope(reading: envelope.bytes)
    #expect(read == envelope)
    #expect(Array(envelope.bytes.suffix(7)) == [5, 0, 4, 0, 0, 0, 7])
    var random = SeededRandom(seed: 1)
    let key = X25519.PrivateKey(randomFrom: &random)
    #expect(throws: CourierEnvelope.OpeningError.prekey) { try envelope.open(with: key) }
  }

  @Test("Only the recipient opens a courier envelope, and gets the sender's public key from it")
  func sealing() throws {
    var random = SeededRandom(seed: 2)
    let (ann, bob) = (X25519.PrivateKey(randomFrom: &random), X25519.PrivateKey(randomFrom: &random))
    let message = try PrivateMessage(id: MessageID("one"), text: "hello")
    let time: UInt64 = 1_800_000_000_000
    let envelope = try CourierEnvelope(
      sealing: .privateMessage(message), for: bob.publicKey, from: ann, at: time, expiry: .max, randomFrom: &random)
    #expect(envelope.expiry == time + 24 * 3600 * 1000 && envelope.copies == 4)
    let opened = try envelope.open(with: bob)
    #expect(opened.payload == .privateMessage(message) && opened.sender == ann.publicKey)
    #expect(throws: CourierEnvelope.OpeningError.notOpened) { try envelope.open(with: ann) }
    let changed = try CourierEnvelope(
      tag: envelope.tag, expiry: envelope.expiry, ciphertext: envelope.ciphertext.flipped(at: -1))
    #expect(throws: CourierEnvelope.OpeningError.notOpened) { try changed.open(with: bob) }
    #expect(throws: WireError.self) {
      try CourierEnvelope(
        sealing: .privateMessage(message), for: X25519.PublicKey([UInt8](repeating: 0, count: 32)), from: ann, at: time,
        expiry: .max, randomFrom: &random)
    }
  }

  @Test("A peer has courier tags for yesterday, today and tomorrow; tags of two peers or two days differ")
  func tags() throws {
    var random = SeededRandom(seed: 3)
    let (one, other) = (
      X25519.PrivateKey(randomFrom: &random).publicKey, X25519.PrivateKey(randomFrom: &random).publicKey
    )
    let day: UInt64 = 86_400_000
    let near = CourierTag.near(20_000 * day + 5, for: one)
    #expect(near == [19_999, 20_000, 20_001].map { CourierTag(for: one, day: $0) })
    #expect(Set(near + CourierTag.near(20_000 * day, for: other)).count == 6)
    #expect(CourierTag.near(0, for: one).count == 3)
  }

  @Test("The records of a courier envelope are read in any order, and unknown records are skipped")
  func order() throws {
    let whole = vectors.courier.envelope.bytes
    let known = try CourierEnvelope(reading: whole)
    // The record with the copies comes first, then an unknown record, then the others.
    let moved = whole.suffix(4) + [0x77, 0, 2, 1, 2] + whole.dropLast(4)
    let read = try CourierEnvelope(reading: Array(moved))
    #expect(read == known)
    // Without the record there is one copy, which is encoded without the record.
    let single = try CourierEnvelope(reading: Array(whole.dropLast(4)))
    #expect(single.copies == 1 && single.bytes == Array(whole.dropLast(4)))
  }

  @Test("A copy count outside 1 to 8 in a courier envelope is clamped, and the envelope is not refused")
  func copies() throws {
    for (said, allowed) in [(0, 1), (1, 1), (4, 4), (8, 8), (9, 8), (255, 8)] as [(UInt8, UInt8)] {
      let bytes = Array(vectors.courier.envelope.bytes.dropLast()) + [said]
      let read = try CourierEnvelope(reading: bytes)
      #expect(read.allowedCopies == allowed)
    }
  }

  @Test("A courier envelope with a missing record, a record of wrong length, or 17 records is refused")
  func malformed() throws {
    let whole = vectors.courier.envelope.bytes
    for count in 0..<(whole.count - 4) {
      #expect(throws: WireError.self, "\(count) bytes") { try CourierEnvelope(reading: Array(whole.prefix(count))) }
    }
    for (index, value) in [(2, 15), (2, 17), (21, 7)] as [(Int, UInt8)] {
      #expect(throws: WireError.self) { try CourierEnvelope(reading: whole.with(value, at: index)) }
    }
    let records: [[UInt8]] = [
      [4, 0, 0], [4, 0, 2, 1, 1], [5, 0, 3, 1, 2, 3], [5, 0, 5, 1, 2, 3, 4, 5], [3, 0, 0], [1, 0, 0],
    ]
    for record in records {
      #expect(throws: WireError.self) { try CourierEnvelope(reading: whole + record) }
    }
    // Seventeen records.
    let many = whole + [[UInt8]](repeating: [0x70, 0, 0], count: 13).flatMap { $0 }
    #expect(throws: WireError.self) { try CourierEnvelope(reading: many) }
    let sixteen = try CourierEnvelope(reading: Array(many.dropLast(3)))
    #expect(sixteen.copies == 4)
  }

  @Test("A courier envelope has a ciphertext of 1 byte to 16 KiB; other lengths are refused")
  func length() throws {
    let tag = try CourierEnvelope(reading: vectors.courier.envelope.bytes).tag
    for (count, isGood) in [(0, false), (1, true), (16 << 10, true), ((16 << 10) + 1, false)] {
      let ciphertext = [UInt8](repeating: 1, count: count)
      let made = try? CourierEnvelope(tag: tag, expiry: 1, ciphertext: ciphertext)
      #expect((made != nil) == isGood, "\(count)")
      var writer = ByteWriter()
      for (type, value) in [(1, tag.bytes), (2, [0, 0, 0, 0, 0, 0, 0, 1]), (3, ciphertext)] as [(UInt8, [UInt8])] {
        writer.u8(type)
        writer.u16be(UInt16(value.count))
        writer.append(value)
      }
      #expect(((try? CourierEnvelope(reading: writer.bytes)) != nil) == isGood, "\(count)")
    }
  }

  @Test("The description of a courier envelope has tag, expiry, copies and ciphertext length, but no content")
  func described() throws {
    let packet = try Packet(
      type: .courier, timestamp: 5, sender: PeerID(rawValue: 1), recipient: PeerID(rawValue: 2),
      payload: vectors.courier.envelope.bytes
    ).encoded()
    let says = PacketDescription(packet).fields.first { $0.name == "says" }?.value
    guard case .fields(let fields)? = says else {
      Issue.record("nothing is said")
      return
    }
    #expect(fields.map(\.name) == ["tag", "expiry", "copies", "ciphertextBytes"])
    #expect(fields.last?.value == .number(UInt64(vectors.courier.noiseXMessage.bytes.count)))
  }
}
