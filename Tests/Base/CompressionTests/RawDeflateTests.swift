import Compression
import Testing

@Suite("RawDeflate")
struct RawDeflateTests {
  static let hello = Array("hello".utf8)
  static let fixed: [UInt8] = [0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]
  static let stored: [UInt8] = [0x01, 0x05, 0x00, 0xFA, 0xFF, 0x68, 0x65, 0x6C, 0x6C, 0x6F]

  @Test(
    "Raw deflate streams with fixed Huffman codes or stored blocks inflate to their content",
    arguments: [fixed, stored])
  func inflates(_ stream: [UInt8]) throws {
    #expect(try RawDeflate.decompress(stream, limit: 5) == Self.hello)
    #expect(throws: CompressionError.tooLarge(limit: 4)) { try RawDeflate.decompress(stream, limit: 4) }
    #expect(throws: CompressionError.trailing(2)) { try RawDeflate.decompress(stream + [0, 0], limit: 5) }
    for count in 0..<stream.count {
      #expect(throws: CompressionError.truncated) { try RawDeflate.decompress(stream.prefix(count), limit: 5) }
    }
  }

  @Test("The raw deflate compressor uses fixed Huffman codes")
  func ours() throws {
    #expect(try RawDeflate.compress(Self.hello) == Self.fixed)
  }

  @Test(
    "An invalid raw deflate stream throws an error that contains zlib's reason",
    arguments: [
      ([0x07], "invalid block type"),
      ([0x01, 0x05, 0x00, 0xFA, 0xFE], "invalid stored block lengths"),
      // The match begins before the start of the stream.
      ([0x4B, 0x04, 0x41, 0x00], "invalid distance too far back"),
    ] as [([UInt8], String)])
  func corrupt(_ stream: [UInt8], reason: String) {
    #expect(throws: CompressionError.corrupt(reason)) { try RawDeflate.decompress(stream, limit: 1000) }
  }

  @Test("Inflating a deflate bomb stops at the limit")
  func bomb() throws {
    let bomb = try RawDeflate.compress([UInt8](repeating: 0, count: 8 << 20))
    #expect(throws: CompressionError.tooLarge(limit: 100_000)) { try RawDeflate.decompress(bomb, limit: 100_000) }
  }
}
