import Compression
import Testing

@Suite("Gzip")
struct GzipTests {
  static let hello = Array("hello".utf8)

  /// Five bytes as gzip members of several encoders.
  static let members: [[UInt8]] = [
    // The member as zlib writes it.
    [
      0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x86, 0xA6,
      0x10, 0x36, 0x05, 0x00, 0x00, 0x00,
    ],
    // With a time, an extra field, a name, a comment and a header checksum; another operating system.
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

  @Test("Gzip members made by several encoders inflate to their original content", arguments: members)
  func inflates(_ member: [UInt8]) throws {
    #expect(try Gzip.decompress(member, limit: 5) == Self.hello)
    #expect(try Gzip.decompress(([0] + member)[1...], limit: .max) == Self.hello)
  }

  @Test("A gzip member that we compress contains no file name or modification time")
  func ours() throws {
    #expect(try Gzip.compress(Self.hello) == Self.members[0])
  }

  @Test("Inflating a gzip member that is truncated at any byte throws `truncated`", arguments: members)
  func truncated(_ member: [UInt8]) {
    for count in 0..<member.count {
      #expect(throws: CompressionError.truncated) { try Gzip.decompress(member.prefix(count), limit: 100) }
    }
  }

  @Test("A gzip member with one changed bit is refused, or inflates to the same bytes", arguments: members)
  func altered(_ member: [UInt8]) {
    for bit in 0..<member.count * 8 {
      var altered = member
      altered[bit / 8] ^= 1 << (bit % 8)
      let inflated = try? Gzip.decompress(altered, limit: 100)
      #expect(inflated == nil || inflated == Self.hello, "bit \(bit)")
    }
  }

  @Test("Bytes after a gzip member, even a second member, are refused with an error that has their count")
  func trailing() {
    let member = Self.members[0]
    #expect(throws: CompressionError.trailing(1)) { try Gzip.decompress(member + [0], limit: 5) }
    #expect(throws: CompressionError.trailing(member.count)) { try Gzip.decompress(member + member, limit: 5) }
  }

  @Test("Inflating a gzip member succeeds with a limit equal to its size, and fails with a smaller limit")
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

  /// The output buffer has twice the size of the member at first, then doubles: the 89 bytes of a member of 65,536
  /// sevens need 178 first.
  @Test(
    "For sizes around each buffer boundary, a limit equal to the gzip content's size succeeds and one byte less fails",
    arguments: [127, 128, 129, 178, 355, 356, 357, 45_567, 45_568, 45_569, 65535, 65536, 65537, 131_072, 131_073])
  func limitAtRooms(_ count: Int) throws {
    let member = try Gzip.compress([UInt8](repeating: 7, count: count))
    #expect(try Gzip.decompress(member, limit: count).count == count)
    #expect(throws: CompressionError.tooLarge(limit: count - 1)) { try Gzip.decompress(member, limit: count - 1) }
  }

  @Test("Inflating a gzip bomb stops at the limit, whatever size the bomb declares")
  func bomb() throws {
    var bomb = try Gzip.compress([UInt8](repeating: 0, count: 32 << 20))
    #expect(bomb.count < 40_000)
    #expect(throws: CompressionError.tooLarge(limit: 1 << 20)) { try Gzip.decompress(bomb, limit: 1 << 20) }
    bomb.replaceSubrange((bomb.count - 4)..., with: [1, 0, 0, 0])
    #expect(throws: CompressionError.tooLarge(limit: 1 << 20)) { try Gzip.decompress(bomb, limit: 1 << 20) }
  }

  @Test("A gzip member that declares a larger size than it has is corrupt, and inflating it allocates no extra memory")
  func declaredSize() {
    var member = Self.members[0]
    member.replaceSubrange((member.count - 4)..., with: [0xFF, 0xFF, 0xFF, 0xFF])
    #expect(throws: CompressionError.corrupt("incorrect length check")) { try Gzip.decompress(member, limit: .max) }
  }

  @Test("Gzip inflation refuses plain text, zlib streams and raw deflate streams as corrupt")
  func notGzip() throws {
    for bytes in [
      Array("hello".utf8), [0x78, 0x9C, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x06, 0x2C, 0x02, 0x15],
      try RawDeflate.compress(Self.hello),
    ] {
      #expect(throws: CompressionError.corrupt("incorrect header check")) { try Gzip.decompress(bytes, limit: 100) }
    }
  }

  @Test(
    "Gzip restores inputs of every length in the tested range", arguments: [0, 1, 2, 255, 65535, 65536, 65537, 200_000])
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

  @Test("Gzip restores an input of 5 MiB")
  func large() throws {
    let text = Array("{\"credential\": \"".utf8)
    let bytes = (0..<(5 << 20)).map { text[$0 & 15] ^ UInt8(truncatingIfNeeded: $0 >> 14) }
    #expect(try Gzip.decompress(Gzip.compress(bytes), limit: bytes.count) == bytes)
  }

  @Test("Each compression error has a description that is a sentence")
  func descriptions() {
    #expect("\(CompressionError.corrupt("x"))" == "the compressed data is corrupt: x")
    #expect("\(CompressionError.truncated)" == "the compressed data is truncated")
    #expect("\(CompressionError.tooLarge(limit: 9))" == "inflates to more than 9 bytes")
    #expect("\(CompressionError.trailing(2))" == "2 bytes follow the compressed data")
    #expect("\(CompressionError.unavailable)" == "zlib is not available")
  }
}
