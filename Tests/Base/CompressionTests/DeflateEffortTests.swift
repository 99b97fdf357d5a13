import Compression
import Testing

@Suite("DeflateEffort and exact sizes")
struct DeflateEffortTests {
  static let text = Array(
    String(repeating: "the relay on the roof is up again, battery at 81 percent. ", count: 20).utf8)

  @Test("Compression level, window and memory each change the deflate stream, and each stream inflates to the input")
  func efforts() throws {
    // Distant repetitions, beyond the reach of a small window.
    let bytes = (0..<3000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 3) } + Self.text
    let all = bytes + bytes
    let efforts = [
      DeflateEffort(level: 6), DeflateEffort(level: 0), DeflateEffort(level: 1), DeflateEffort(level: 6, windowBits: 9),
      DeflateEffort(level: 6, memoryLevel: 1),
    ]
    let streams = try efforts.map { try RawDeflate.compress(all, effort: $0) }
    #expect(Set(streams).count == streams.count)
    for stream in streams { #expect(try RawDeflate.decompress(stream, exactly: all.count) == all) }
    #expect(try RawDeflate.compress(all) == streams[0])
    #expect(streams[1].count > all.count)
  }

  @Test("Deflate parameters outside zlib's ranges are clamped to them")
  func ranges() throws {
    #expect(
      DeflateEffort(level: 99, windowBits: 99, memoryLevel: 99)
        == DeflateEffort(level: 9, windowBits: 15, memoryLevel: 9))
    #expect(
      DeflateEffort(level: -9, windowBits: 0, memoryLevel: 0) == DeflateEffort(level: -1, windowBits: 9, memoryLevel: 1)
    )
    #expect(DeflateEffort.usual == DeflateEffort(level: -1, windowBits: 15, memoryLevel: 8))
    for effort in [DeflateEffort(level: 99, windowBits: 99, memoryLevel: 99), DeflateEffort(level: 0, windowBits: 0)] {
      let stream = try ZlibDeflate.compress(Self.text, effort: effort)
      #expect(try ZlibDeflate.decompress(stream, exactly: Self.text.count) == Self.text)
    }
  }

  @Test("Inflating with an exact size succeeds only if the stream has exactly this size", arguments: [true, false])
  func sizes(isRaw: Bool) throws {
    func decompress(_ stream: [UInt8], exactly count: Int) throws(CompressionError) -> [UInt8] {
      isRaw ? try RawDeflate.decompress(stream, exactly: count) : try ZlibDeflate.decompress(stream, exactly: count)
    }
    for count in [0, 1, 2, 63, 64, 65, 126, 127, 128, 129, 1000] {
      let bytes = Array(Self.text.prefix(count))
      let stream = isRaw ? try RawDeflate.compress(bytes) : try ZlibDeflate.compress(bytes)
      #expect(try decompress(stream, exactly: count) == bytes)
      #expect(throws: CompressionError.wrongSize(expected: count + 1, got: count)) {
        try decompress(stream, exactly: count + 1)
      }
      #expect(throws: CompressionError.trailing(1)) { try decompress(stream + [0], exactly: count) }
      #expect(throws: CompressionError.truncated) { try decompress(stream.dropLast(), exactly: count) }
      #expect(throws: CompressionError.truncated) { try decompress([], exactly: count) }
      guard count > 0 else { continue }
      #expect(throws: CompressionError.tooLarge(limit: count - 1)) { try decompress(stream, exactly: count - 1) }
    }
  }

  @Test("Inflating a zlib stream verifies its header and checksum")
  func zlibFormat() throws {
    let stream = try ZlibDeflate.compress(Self.text)
    #expect(stream.starts(with: [0x78, 0x9C]))
    #expect((try RawDeflate.compress(Self.text)) == Array(stream.dropFirst(2).dropLast(4)))
    for index in [0, 1, stream.count - 1] {
      var bad = stream
      bad[index] ^= 1
      #expect(throws: CompressionError.self) { try ZlibDeflate.decompress(bad, exactly: Self.text.count) }
    }
    #expect(throws: CompressionError.self) { try RawDeflate.decompress(stream, exactly: Self.text.count) }
  }
}
