import Bytes
import Common
import Crypto
import Testing

@testable import Tuvali

@Suite("Encoding of Tuvali values")
struct CodecTests {
  @Test(
    "Each characteristic has a different UUID in every dialect and is found by this UUID",
    arguments: Dialect.Name.allCases)
  func uuids(name: Dialect.Name) {
    let dialect = Dialect.named(name)
    let uuids = Characteristic.allCases.map(dialect.uuid(of:))
    #expect(Set(uuids).count == 9)
    #expect(!uuids.contains(dialect.service))
    for characteristic in Characteristic.allCases {
      #expect(dialect.characteristic(for: dialect.uuid(of: characteristic)) == characteristic)
    }
    #expect(dialect.characteristic(for: dialect.service) == nil)
  }

  @Test("The UUIDs of the characteristics equal those of the apps")
  func knownUUIDs() {
    let apps: [(Characteristic, String, String)] = [
      (.requestSize, "00000004-5026-444a-9e0e-d6f2450f3a77", "2031"),
      (.request, "00000005-5026-444a-9e0e-d6f2450f3a77", "2032"),
      (.identify, "00000006-5026-444a-9e0e-d6f2450f3a77", "2030"),
      (.responseSize, "00000007-5026-444a-9e0e-d6f2450f3a77", "2033"),
      (.submitResponse, "00000008-5026-444a-9e0e-d6f2450f3a77", "2034"),
      (.transferReportRequest, "00000009-5026-444a-9e0e-d6f2450f3a77", "2035"),
      (.transferReportResponse, "0000000a-5026-444a-9e0e-d6f2450f3a77", "2036"),
      (.verificationStatus, "2037", "2037"),
      (.disconnect, "0000000b-5026-444a-9e0e-d6f2450f3a77", "2038"),
    ]
    for (characteristic, current, document) in apps {
      #expect(Dialect.v05.uuid(of: characteristic) == BluetoothUUID(current))
      #expect(Dialect.v04.uuid(of: characteristic) == BluetoothUUID(document))
      #expect(Dialect.v03.uuid(of: characteristic) == BluetoothUUID(document))
    }
  }

  @Test(
    "A credential size is encoded and decoded in both encodings",
    arguments: [
      (17, "00000011", "17"), (255, "000000ff", "255"), (256, "00000100", "256"), (65_536, "00010000", "65536"),
      (Int(Int32.max), "7fffffff", "2147483647"),
    ])
  func sizes(size: Int, bigEndian: String, decimal: String) throws {
    let value = ResponseSize(size)
    #expect(Hex.encode(value.bytes(as: .bigEndian)) == bigEndian)
    #expect(value.bytes(as: .asciiDecimal) == Array(decimal.utf8))
    #expect(try ResponseSize(reading: Hex.decode(bigEndian), as: .bigEndian) == value)
    #expect(try ResponseSize(reading: Array(decimal.utf8), as: .asciiDecimal) == value)
    #expect(try value.checked(limit: .max) == size)
  }

  @Test(
    "An invalid credential size is refused with a named error",
    arguments: [
      ("000011", Dialect.SizeEncoding.bigEndian, WireError.truncated(needed: 4, available: 3)),
      ("", .asciiDecimal, .truncated(needed: 1, available: 0)), ("2d31", .asciiDecimal, .badValue("digits")),
      ("3132333435363738393031", .asciiDecimal, .tooLong(field: "digits", limit: 10)),
    ])
  func badSizes(hex: String, encoding: Dialect.SizeEncoding, error: WireError) throws {
    let bytes = try Hex.decode(hex)
    #expect(throws: error) { try ResponseSize(reading: bytes, as: encoding) }
  }

  @Test("A size that no frame can have, or that is above the limit, is refused as TVV_TRA_001")
  func sizesOutOfBounds() throws {
    for size in [Int(Int32.min), -1, 0, 16, 1001] {
      let value = ResponseSize(size)
      #expect(refusal { try value.checked(limit: 1000) }?.code == "TVV_TRA_001")
      let again = try ResponseSize(reading: value.bytes(as: .bigEndian), as: .bigEndian)
      #expect(again == value)
    }
    #expect(try ResponseSize(17).checked(limit: 17) == 17)
  }

  // MARK: Chunk and the values of one byte

  static let chunks: [(sequence: UInt16, payload: String, bytes: String)] = [
    (1, "313233343536373839", "00012189313233343536373839"), (0, "00", "0000000000"), (0x7FFF, "ff", "7fff0f78ff"),
    (0xFFFF, "0102", "ffff3aca0102"),
  ]

  @Test("A chunk consists of a sequence number, its payload's checksum and its payload", arguments: chunks)
  func chunk(sequence: UInt16, payload: String, bytes: String) throws {
    let written = Chunk(sequence: sequence, payload: try Hex.decode(payload)[...])
    #expect(Hex.encode(written.bytes) == bytes)
    let read = try Chunk(reading: Hex.decode(bytes))
    #expect(read.sequence == sequence && Array(read.payload) == Array(written.payload) && read.isIntact)
    var damaged = written.bytes
    damaged[damaged.count - 1] ^= 1
    #expect(try !Chunk(reading: damaged).isIntact)
    #expect(try Chunk(reading: damaged).bytes == damaged)
  }

  @Test("A chunk without a payload is refused")
  func emptyChunk() {
    #expect(throws: WireError.truncated(needed: 1, available: 0)) { try Chunk(reading: [0, 1, 0, 0]) }
    #expect(throws: WireError.truncated(needed: 2, available: 1)) { try Chunk(reading: [0, 1, 0]) }
    #expect(throws: WireError.truncated(needed: 2, available: 0)) { try Chunk(reading: [UInt8]()) }
  }

  @Test("Of a single-byte value only the first byte is read")
  func oneByteValues() throws {
    #expect(TransferReportRequest.allCases.map(\.bytes) == [[1], [2]])
    #expect(VerificationStatus.allCases.map(\.bytes) == [[0], [1]])
    #expect(DisconnectRequest().bytes == [1])
    for byte in UInt8.min...UInt8.max {
      let value = [byte, 1]
      #expect((try? TransferReportRequest(reading: value)) == (byte == 1 ? .report : byte == 2 ? .error : nil))
      #expect(try VerificationStatus(reading: value) == (byte == 0 ? .accepted : .rejected))
      #expect((try? DisconnectRequest(reading: value)) == (byte == 1 ? DisconnectRequest() : nil))
    }
    let truncated = WireError.truncated(needed: 1, available: 0)
    #expect(throws: truncated) { try TransferReportRequest(reading: [UInt8]()) }
    #expect(throws: truncated) { try VerificationStatus(reading: [UInt8]()) }
    #expect(throws: truncated) { try DisconnectRequest(reading: [UInt8]()) }
  }

  @Test("An encoded value is appended to a writer, and decoding leaves later bytes unread")
  func valuesInARow() throws {
    let identify = try Identify(reading: Vectors.shared.identify.payloadHex.bytes)
    var writer = ByteWriter()
    writer.u8(7)
    identify.write(to: &writer)
    VerificationStatus.rejected.write(to: &writer)
    TransferReport.success.write(to: &writer)
    var reader = ByteReader(writer.bytes)
    #expect(try reader.u8() == 7)
    #expect(try Identify(reading: &reader) == identify)
    #expect(try VerificationStatus(reading: &reader) == .rejected)
    #expect(try TransferReport(reading: &reader) == .success)
    #expect(reader.isAtEnd)
  }

  @Test("A frame that needs more than 32,767 chunks is refused")
  func chunkLimit() throws {
    let layout = ChunkLayout(mtu: 67)
    let most = [UInt8](repeating: 0, count: 60 * Limits.chunks)
    let chunker = try Chunker(frame: most, layout: layout, firstSequence: 1)
    #expect(chunker.sequences == 1..<32_768)
    #expect(chunker.chunk(32_767)?.prefix(2) == [0x7F, 0xFF])
    let error = refusal { try Chunker(frame: most + [0], layout: layout, firstSequence: 1) }
    #expect(error?.code == "TVW_UNK_003")
  }

  @Test(
    "The frame limit for a credential allows for text that cannot be compressed",
    arguments: [1, 100, 5000, 70_000])
  func frameRoom(count: Int) throws {
    let frame = try Vectors.shared.keys.session().seal(noise(count, seed: 3))
    #expect(frame.count <= Limits.frameBytes(forCredential: count))
    #expect(frame.count >= Limits.smallestFrame)
  }

  @Test("The printed form of a sealing or unsealing job shows neither credential nor frame")
  func printing() throws {
    let keys = try Vectors.shared.keys.session()
    let sealing = Sealing(text: Array("secret".utf8), keys: keys)
    let unsealing = Unsealing(frame: [115, 101], keys: [keys], limit: 10)
    for value in [sealing, unsealing] as [any Sendable] {
      var dumped = ""
      dump(value, to: &dumped)
      for text in ["\(value)", String(reflecting: value), dumped, "\(Optional(value) as Any)"] {
        #expect(!text.contains("115"), "\(text)")
      }
    }
  }

  @Test("The Tuvali error codes equal the original ones, and each error has a sentence")
  func errors() {
    #expect(TuvaliError.Code.allCases.count == 14)
    for code in TuvaliError.Code.allCases {
      #expect(code.rawValue.wholeMatch(of: /TU?V[VW]?_(UNK|CON|TRA|REP)_00[123]/) != nil, "\(code.rawValue)")
    }
    #expect(TuvaliError.mtuTooSmall(66).sentence.contains("67"))
    #expect(TuvaliError.mtuTooSmall(66).code == "TVV_CON_001")
  }
}

/// Text that gzip hardly compresses.
func noise(_ count: Int, seed: UInt64) -> [UInt8] {
  var random = SeededRandom(seed: seed)
  return random.bytes(count).map { 0x20 + $0 % 95 }
}

/// The error that `body` throws; nil if it succeeds.
func refusal<Value>(_ body: () throws -> Value) -> TuvaliError? {
  do {
    _ = try body()
    return nil
  } catch {
    return error as? TuvaliError
  }
}
