import Compression
import Testing

@Suite("Gzip")
struct GzipTests {
  static let hello = Array("hello".utf8)

  /// The same five bytes in members of other makers.
  static let members: [[UInt8]] = [
    // As zlib writes it.
    [
      0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x86, 0xA6,
      0x10, 0x36, 0x05, 0x00, 0x00, 0x00,
    ],
    // With a time, an extra field, a name, a comment and a checksum of the header; other operating system.
    [
      0x1F, 0x8B, 0x08, 0x1E, 0x00, 0x10, 0x5E, 0x5F, 0x00, 0xFF, 0x04, 0x00, 0x41, 0x42, 0x00, 0x00, 0x61, 0x2E, 0x74,
      0x78, 0x74, 0x00, 0x6E, 0x6F, 0x74, 0x65, 0x00, 0xDC, 0x04, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x86, 0xA6,
      0x10, 0x36, 0x05, 0x00, 0x00, 0x00,
    ],
    // Stored, not deflated.
    [
      0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x03, 0x01, 0x05, 0x00, 0xFA, 0xFF, 0x68, 0x65, 0x6C, 0x6C,
      0x6F, 0x86, 0xA6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00,
    ],
  ]

  @Test("A member of any maker inflates to its bytes", arguments: members)
  func inflates(_ member: [UInt8]) throws {
    #expect(try Gzip.decompress(member, limit: 5) == Self.hello)
    #expect(try Gzip.decompress(([0] + member)[1...], limit: .max) == Self.hello)
  }

  @Test("Our member is the one without name or time")
  func ours() throws {
    #expect(try Gzip.compress(Self.hello) == Self.members[0])
  }

  @Test("A member cut anywhere is truncated", arguments: members)
  func truncated(_ member: [UInt8]) {
    for count in 0..<member.count {
      #expect(throws: CompressionError.truncated) { try Gzip.decompress(member.prefix(count), limit: 100) }
    }
  }

  @Test("A member with any one bit altered is refused or still holds the same bytes", arguments: members)
  func altered(_ member: [UInt8]) {
    for bit in 0..<member.count * 8 {
      var altered = member
      altered[bit / 8] ^= 1 << (bit % 8)
      let inflated = try? Gzip.decompress(altered, limit: 100)
      #expect(inflated == nil || inflated == Self.hello, "bit \(bit)")
    }
  }

  @Test("What stands behind the member is refused with its size, a second member too")
  func trailing() {
    let member = Self.members[0]
    #expect(throws: CompressionError.trailing(1)) { try Gzip.decompress(member + [0], limit: 5) }
    #expect(throws: CompressionError.trailing(member.count)) { try Gzip.decompress(member + member, limit: 5) }
  }

  @Test("A limit of exactly the size is kept and one below it is broken")
  func limit() throws {
    let member = Self.members[0]
    #expect(try Gzip.decompress(member, limit: 5) == Self.hello)
    for limit in [4, 1, 0] {
      #expect(throws: CompressionError.tooLarge(limit: limit)) { try Gzip.decompress(member, limit: limit) }
    }
    #expect(throws: CompressionError.tooLarge(limit: 0)) { try Gzip.decompress(member, limit: -1) }
    #expect(throws: CompressionError.tooLarge(limit: 0)) { try Gzip.decompress(member, limit: .min) }
    #expect(try Gzip.decompress(Gzip.compress([UInt8]()), limit: 0).isEmpty)
  }

  /// The room for output is twice the member at first, then doubles: the 89 bytes of a member of 65,536 sevens have one of 178.
  @Test(
    "The limit holds on both sides of each room for output",
    arguments: [127, 128, 129, 178, 355, 356, 357, 45_567, 45_568, 45_569, 65535, 65536, 65537, 131_072, 131_073])
  func limitAtRooms(_ count: Int) throws {
    let member = try Gzip.compress([UInt8](repeating: 7, count: count))
    #expect(try Gzip.decompress(member, limit: count).count == count)
    #expect(throws: CompressionError.tooLarge(limit: count - 1)) { try Gzip.decompress(member, limit: count - 1) }
  }

  @Test("A bomb stops at the limit, whatever size it declares")
  func bomb() throws {
    var bomb = try Gzip.compress([UInt8](repeating: 0, count: 32 << 20))
    #expect(bomb.count < 40_000)
    #expect(throws: CompressionError.tooLarge(limit: 1 << 20)) { try Gzip.decompress(bomb, limit: 1 << 20) }
    bomb.replaceSubrange((bomb.count - 4)..., with: [1, 0, 0, 0])
    #expect(throws: CompressionError.tooLarge(limit: 1 << 20)) { try Gzip.decompress(bomb, limit: 1 << 20) }
  }

  @Test("A declared size is not believed: too large a one is corruption, not an allocation")
  func declaredSize() {
    var member = Self.members[0]
    member.replaceSubrange((member.count - 4)..., with: [0xFF, 0xFF, 0xFF, 0xFF])
    #expect(throws: CompressionError.corrupt("incorrect length check")) { try Gzip.decompress(member, limit: .max) }
  }

  @Test("What is no gzip is corrupt: text, the zlib format, bare deflate")
  func notGzip() throws {
    for bytes in [
      Array("hello".utf8), [0x78, 0x9C, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x06, 0x2C, 0x02, 0x15],
      try RawDeflate.compress(Self.hello),
    ] {
      #expect(throws: CompressionError.corrupt("incorrect header check")) { try Gzip.decompress(bytes, limit: 100) }
    }
  }

  @Test("Every length comes back", arguments: [0, 1, 2, 255, 65535, 65536, 65537, 200_000])
  func roundTrip(_ count: Int) throws {
    var number: UInt32 = 1
    let noise = (0..<count).map { _ in
      number = number &* 1_664_525 &+ 1_013_904_223
      return UInt8(truncatingIfNeeded: number >> 24)
    }
    #expect(try Gzip.decompress(Gzip.compress(noise), limit: count) == noise)
    #expect(try Gzip.decompress(Gzip.compress(AnyCollection(noise)), limit: count) == noise)
    #expect(try RawDeflate.decompress(RawDeflate.compress(noise), limit: count) == noise)
    let zeros = [UInt8](repeating: 0, count: count)
    #expect(try Gzip.decompress(Gzip.compress(zeros), limit: count) == zeros)
  }

  @Test("Five megabytes come back")
  func large() throws {
    let text = Array("{\"credential\": \"".utf8)
    let bytes = (0..<(5 << 20)).map { text[$0 & 15] ^ UInt8(truncatingIfNeeded: $0 >> 14) }
    #expect(try Gzip.decompress(Gzip.compress(bytes), limit: bytes.count) == bytes)
  }

  @Test("An error is a sentence")
  func descriptions() {
    #expect("\(CompressionError.corrupt("x"))" == "corrupt compressed bytes: x")
    #expect("\(CompressionError.truncated)" == "the compressed bytes end too early")
    #expect("\(CompressionError.tooLarge(limit: 9))" == "more than 9 bytes when inflated")
    #expect("\(CompressionError.trailing(2))" == "2 bytes follow the compressed ones")
    #expect("\(CompressionError.unavailable)" == "zlib is not available")
  }
}
