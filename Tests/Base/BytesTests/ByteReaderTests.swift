import Bytes
import Testing

@Suite("ByteReader and ByteWriter")
struct ByteReaderTests {
  /// A number, its encoding, and the methods that read and write it.
  struct Number: Sendable, CustomTestStringConvertible {
    let name: String
    let value: UInt64
    let bytes: [UInt8]
    let read: @Sendable (inout ByteReader) throws -> UInt64
    let write: @Sendable (inout ByteWriter, UInt64) -> Void

    var testDescription: String { "\(name) \(value)" }
  }

  static let numbers: [Number] = {
    func row(
      _ name: String, _ value: UInt64, _ bytes: [UInt8],
      _ read: @escaping @Sendable (inout ByteReader) throws -> UInt64,
      _ write: @escaping @Sendable (inout ByteWriter, UInt64) -> Void
    ) -> Number { Number(name: name, value: value, bytes: bytes, read: read, write: write) }
    var rows: [Number] = []
    for (value, bytes) in [(UInt64(0), [UInt8(0)]), (0x7F, [0x7F]), (0x80, [0x80]), (0xFF, [0xFF])] {
      rows.append(row("u8", value, bytes, { UInt64(try $0.u8()) }, { $0.u8(UInt8($1)) }))
    }
    for (value, bytes) in [
      (UInt64(0), [UInt8(0), 0]), (1, [0, 1]), (0x0102, [1, 2]), (0x8000, [0x80, 0]), (0xFFFF, [0xFF, 0xFF]),
    ] {
      rows.append(row("u16be", value, bytes, { UInt64(try $0.u16be()) }, { $0.u16be(UInt16($1)) }))
      rows.append(row("u16le", value, bytes.reversed(), { UInt64(try $0.u16le()) }, { $0.u16le(UInt16($1)) }))
    }
    for (value, bytes) in [
      (UInt64(0), [UInt8(0), 0, 0, 0]), (1, [0, 0, 0, 1]), (0x0102_0304, [1, 2, 3, 4]),
      (0x8000_0000, [0x80, 0, 0, 0]), (0xFFFF_FFFF, [0xFF, 0xFF, 0xFF, 0xFF]),
    ] {
      rows.append(row("u32be", value, bytes, { UInt64(try $0.u32be()) }, { $0.u32be(UInt32($1)) }))
      rows.append(row("u32le", value, bytes.reversed(), { UInt64(try $0.u32le()) }, { $0.u32le(UInt32($1)) }))
    }
    for (value, bytes) in [
      (UInt64(0), [UInt8(0), 0, 0, 0, 0, 0, 0, 0]), (1, [0, 0, 0, 0, 0, 0, 0, 1]),
      (0x0102_0304_0506_0708, [1, 2, 3, 4, 5, 6, 7, 8]), (1 << 63, [0x80, 0, 0, 0, 0, 0, 0, 0]),
      (.max, [UInt8](repeating: 0xFF, count: 8)),
    ] {
      rows.append(row("u64be", value, bytes, { try $0.u64be() }, { $0.u64be($1) }))
      rows.append(row("u64le", value, bytes.reversed(), { try $0.u64le() }, { $0.u64le($1) }))
    }
    return rows
  }()

  @Test("ByteReader decodes a number from the bytes that ByteWriter encodes it to", arguments: numbers)
  func bothDirections(_ number: Number) throws {
    var reader = ByteReader(number.bytes)
    #expect(try number.read(&reader) == number.value)
    #expect(reader.isAtEnd)
    var writer = ByteWriter()
    number.write(&writer, number.value)
    #expect(writer.bytes == number.bytes)
  }

  @Test(
    "Reading a truncated number throws the number of missing bytes and does not advance the reader", arguments: numbers)
  func cutShort(_ number: Number) {
    for available in 0..<number.bytes.count {
      let padded = [0xAA] + number.bytes.prefix(available)
      var reader = ByteReader(padded[1...])
      #expect(throws: WireError.truncated(needed: number.bytes.count, available: available)) {
        try number.read(&reader)
      }
      #expect(reader.remaining == available)
    }
  }

  @Test("ByteReader reads a number at any offset of an array slice")
  func offsets() throws {
    let bytes: [UInt8] = [9, 9, 9, 1, 2, 3, 4, 9]
    for start in 0...3 {
      var reader = ByteReader(bytes[start..<7])
      _ = try reader.bytes(3 - start)
      #expect(try reader.u32be() == 0x0102_0304)
      try reader.finish()
    }
  }

  @Test("`ByteReader.bytes` reads up to the last byte and throws if more bytes are requested")
  func edges() throws {
    var reader = ByteReader([1, 2, 3])
    #expect(try reader.bytes(0).isEmpty)
    #expect(throws: WireError.truncated(needed: 4, available: 3)) { try reader.bytes(4) }
    #expect(throws: WireError.truncated(needed: .max, available: 3)) { try reader.bytes(.max) }
    #expect(throws: WireError.badValue("count")) { try reader.bytes(-1) }
    #expect(throws: WireError.badValue("count")) { try reader.bytes(.min) }
    #expect(try reader.bytes(3).elementsEqual([1, 2, 3]))
    #expect(reader.isAtEnd)
    #expect(try reader.bytes(0).isEmpty)
    #expect(throws: WireError.truncated(needed: 1, available: 0)) { try reader.bytes(1) }
  }

  @Test("`ByteReader.rest` returns all remaining bytes, and nothing when it is called again")
  func rest() throws {
    var reader = ByteReader([1, 2, 3])
    _ = try reader.u8()
    #expect(reader.rest().elementsEqual([2, 3]))
    #expect(reader.rest().isEmpty)
    #expect(reader.remaining == 0)
  }

  @Test("`ByteReader.finish` throws the number of trailing bytes if not all bytes were read")
  func trailing() throws {
    var reader = ByteReader([1, 2, 3])
    _ = try reader.u8()
    #expect(throws: WireError.trailing(2)) { try reader.finish() }
    _ = reader.rest()
    try reader.finish()
  }

  @Test("ByteWriter's length prefix counts the bytes of the body after it, also when prefixes are nested")
  func lengthPrefix() throws {
    var writer = ByteWriter(capacity: 16)
    writer.u8(0xEE)
    try writer.lengthPrefixed(UInt16.self, field: "outer") { (outer: inout ByteWriter) throws(WireError) in
      outer.append([1, 2])
      try outer.lengthPrefixed(UInt8.self, field: "inner") { (inner: inout ByteWriter) throws(WireError) in
        inner.append([3, 4, 5])
      }
    }
    #expect(writer.bytes == [0xEE, 0, 6, 1, 2, 3, 3, 4, 5])
  }

  @Test("A one-byte length prefix accepts a body of 255 bytes; for 256 bytes the writer throws and writes nothing")
  func lengthPrefixLimit() throws {
    var writer = ByteWriter()
    try writer.lengthPrefixed(UInt8.self, field: "name") { $0.append([UInt8](repeating: 7, count: 255)) }
    #expect(writer.bytes.count == 256)
    #expect(writer.bytes.first == 255)
    #expect(throws: WireError.tooLong(field: "name", limit: 255)) {
      try writer.lengthPrefixed(UInt8.self, field: "name") { $0.append([UInt8](repeating: 7, count: 256)) }
    }
    #expect(writer.bytes.count == 256)
  }

  @Test("The description of a wire error names the field, the limit and the byte counts")
  func descriptions() {
    #expect("\(WireError.truncated(needed: 4, available: 1))" == "truncated: 4 bytes needed, 1 available")
    #expect("\(WireError.badValue("type"))" == "bad value in type")
    #expect("\(WireError.tooLong(field: "name", limit: 9))" == "name is longer than its limit of 9")
    #expect("\(WireError.trailing(3))" == "3 bytes follow the last field")
  }
}
