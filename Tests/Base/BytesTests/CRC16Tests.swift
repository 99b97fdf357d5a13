import Bytes
import Foundation
import Testing

@Suite("CRC-16/KERMIT")
struct CRC16Tests {
  /// The checksum, computed bit by bit as in the catalogue of CRCs.
  static func slow(_ bytes: some Collection<UInt8>) -> UInt16 {
    bytes.reduce(0) { crc, byte in
      var crc = crc ^ UInt16(byte)
      for _ in 0..<8 { crc = crc & 1 == 0 ? crc >> 1 : (crc >> 1) ^ 0x8408 }
      return crc
    }
  }

  @Test("The CRC-16/KERMIT of the text 123456789 is 0x2189")
  func check() {
    #expect(CRC16.kermit("123456789".utf8) == 0x2189)
  }

  @Test("The CRC-16/KERMIT of empty input and of zero bytes is 0")
  func zeros() {
    #expect(CRC16.kermit([UInt8]()) == 0)
    #expect(CRC16.kermit([UInt8](repeating: 0, count: 100)) == 0)
  }

  @Test("The table-driven CRC-16 equals the bit-by-bit definition for every length and alignment")
  func lengths() {
    let bytes = (0..<96).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ 7) }
    for start in 0..<9 {
      for end in start...bytes.count {
        #expect(CRC16.kermit(bytes[start..<end]) == Self.slow(bytes[start..<end]))
      }
    }
  }

  @Test("The CRC-16 of a collection without contiguous storage equals the CRC-16 of its bytes")
  func anyCollection() {
    let bytes = (0..<50).map { UInt8($0) }
    #expect(CRC16.kermit(bytes.lazy.map { $0 ^ 0x55 }) == Self.slow(bytes.map { $0 ^ 0x55 }))
  }

  static let vectors = URL(fileURLWithPath: #filePath).appendingPathComponent(
    "../../../Protocols/TuvaliTests/Vectors/tuvali.json"
  ).standardizedFileURL

  struct Vectors: Decodable {
    struct Row: Decodable {
      let data: String
      let kermit: String

      enum CodingKeys: String, CodingKey {
        case data = "data_hex"
        case kermit = "kermit_hex"
      }
    }
    let crc: [Row]
  }

  @Test("CRC-16/KERMIT gives the checksums of the Tuvali test vectors")
  func tuvali() throws {
    let rows = try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: Self.vectors)).crc
    #expect(!rows.isEmpty)
    for row in rows {
      #expect(CRC16.kermit(try Hex.decode(row.data)) == UInt16(row.kermit, radix: 16))
    }
  }
}
