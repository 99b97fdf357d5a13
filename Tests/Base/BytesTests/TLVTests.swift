import Bytes
import Testing

@Suite("TLV")
struct TLVTests {
  static let table: [(TLV.LengthField, TLV, [UInt8])] = [
    (.u8, TLV(type: 1, value: []), [1, 0]),
    (.u8, TLV(type: 0xB5, value: [0x53, 0x31]), [0xB5, 2, 0x53, 0x31]),
    (.u8, TLV(type: 0, value: [UInt8](repeating: 9, count: 255)), [0, 255] + [UInt8](repeating: 9, count: 255)),
    (.u16be, TLV(type: 1, value: []), [1, 0, 0]),
    (.u16be, TLV(type: 2, value: [7]), [2, 0, 1, 7]),
    (.u16be, TLV(type: 3, value: [UInt8](repeating: 9, count: 258)), [3, 1, 2] + [UInt8](repeating: 9, count: 258)),
    (
      .u16be, TLV(type: 3, value: [UInt8](repeating: 9, count: 65535)),
      [3, 255, 255] + [UInt8](repeating: 9, count: 65535)
    ),
  ]

  @Test("A TLV record is decoded from the bytes that it is encoded to", arguments: table.indices)
  func bothDirections(_ row: Int) throws {
    let (length, record, bytes) = Self.table[row]
    var reader = ByteReader(bytes)
    #expect(try TLV(reading: &reader, length: length, limit: record.value.count) == record)
    try reader.finish()
    var writer = ByteWriter()
    try record.write(to: &writer, length: length)
    #expect(writer.bytes == bytes)
  }

  @Test("A TLV record that is truncated at any byte is refused", arguments: table.indices.dropLast())
  func cut(_ row: Int) {
    let (length, _, bytes) = Self.table[row]
    for count in 0..<bytes.count {
      var reader = ByteReader(bytes[..<count])
      #expect(throws: WireError.self) { try TLV(reading: &reader, length: length, limit: 65535) }
    }
  }

  @Test("A TLV value at the size limit is read; for one byte more the reader throws before it reads the value")
  func limit() throws {
    var reader = ByteReader([5, 4, 1, 2, 3, 4])
    #expect(try TLV(reading: &reader, length: .u8, limit: 4).value.count == 4)
    reader = ByteReader([5, 5])
    #expect(throws: WireError.tooLong(field: "TLV 5", limit: 4)) {
      try TLV(reading: &reader, length: .u8, limit: 4)
    }
  }

  @Test("A TLV value longer than its length field can express is refused, and nothing is written")
  func tooLongToWrite() {
    var writer = ByteWriter()
    #expect(throws: WireError.tooLong(field: "TLV 1", limit: 255)) {
      try TLV(type: 1, value: [UInt8](repeating: 0, count: 256)).write(to: &writer, length: .u8)
    }
    #expect(throws: WireError.tooLong(field: "TLV 1", limit: 65535)) {
      try TLV(type: 1, value: [UInt8](repeating: 0, count: 65536)).write(to: &writer, length: .u16be)
    }
    #expect(writer.bytes.isEmpty)
  }

  @Test("TLV records are read in order, up to the maximum number of records")
  func list() throws {
    let bytes: [UInt8] = [1, 1, 0xAA, 2, 0, 1, 1, 0xBB]
    let records = try TLV.all(in: bytes[...], length: .u8, limit: 1, maximumCount: 3)
    #expect(records == [TLV(type: 1, value: [0xAA]), TLV(type: 2, value: []), TLV(type: 1, value: [0xBB])])
    #expect(throws: WireError.tooLong(field: "TLV list", limit: 2)) {
      try TLV.all(in: bytes[...], length: .u8, limit: 1, maximumCount: 2)
    }
    #expect(try TLV.all(in: [], length: .u8, limit: 1, maximumCount: 0).isEmpty)
    #expect(throws: WireError.truncated(needed: 1, available: 0)) {
      try TLV.all(in: bytes.dropLast(), length: .u8, limit: 1, maximumCount: 3)
    }
  }
}
