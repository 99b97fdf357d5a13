import Bytes
import Common
import Crypto
import Testing

@testable import Tuvali

@Suite("Tuvali's values on the wire")
struct CodecTests {
  @Test(
    "Every characteristic has a UUID of its own in every dialect, and is found by it", arguments: Dialect.Name.allCases)
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

  @Test("The UUIDs are those of the apps")
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
    "A size is written and read in both encodings",
    arguments: [
      (17, "00000011", "17"), (255, "000000ff", "255"), (256, "00000100", "256"), (65_536, "00010000", "65536"),
      (Int(Int32.max), "7fffffff", "2147483647"),
    ])
  func sizes(size: Int, bigEndian: String, decimal: String) throws {
    #expect(Hex.encode(ResponseSize.encode(size, as: .bigEndian)) == bigEndian)
    #expect(ResponseSize.encode(size, as: .asciiDecimal) == Array(decimal.utf8))
    #expect(try ResponseSize.decode(Hex.decode(bigEndian), as: .bigEndian, limit: .max) == size)
    #expect(try ResponseSize.decode(Array(decimal.utf8), as: .asciiDecimal, limit: .max) == size)
  }

  @Test("A frame may not need more chunks than there are numbers")
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
    "The room that gzip and the tag may take is enough for text that does not compress",
    arguments: [1, 100, 5000, 70_000])
  func frameRoom(count: Int) throws {
    let frame = try Vectors.shared.keys.session().seal(noise(count, seed: 3))
    #expect(frame.count <= Limits.frameBytes(forCredential: count))
    #expect(frame.count >= Limits.smallestFrame)
  }

  @Test("Neither a credential nor a frame is printed with the work that is to be done on it")
  func printing() throws {
    let keys = try Vectors.shared.keys.session()
    let sealing = Sealing(text: Array("secret".utf8), keys: keys)
    let unsealing = Unsealing(frame: [115, 101], keys: keys, limit: 10)
    for value in [sealing, unsealing] as [any Sendable] {
      var dumped = ""
      dump(value, to: &dumped)
      for text in ["\(value)", String(reflecting: value), dumped, "\(Optional(value) as Any)"] {
        #expect(!text.contains("115"), "\(text)")
      }
    }
  }

  @Test("The error codes are the originals', and each error has a sentence")
  func errors() {
    #expect(TuvaliError.Code.allCases.count == 14)
    for code in TuvaliError.Code.allCases {
      #expect(code.rawValue.wholeMatch(of: /TU?V[VW]?_(UNK|CON|TRA|REP)_00[123]/) != nil, "\(code.rawValue)")
    }
    #expect(TuvaliError.mtuTooSmall(66).sentence.contains("67"))
    #expect(TuvaliError.mtuTooSmall(66).code == "TVV_CON_001")
  }
}

/// Text that gzip cannot do much with.
func noise(_ count: Int, seed: UInt64) -> [UInt8] {
  var random = SeededRandom(seed: seed)
  return random.bytes(count).map { 0x20 + $0 % 95 }
}

/// The error with which `body` is refused; nil if it is not.
func refusal<Value>(_ body: () throws -> Value) -> TuvaliError? {
  do {
    _ = try body()
    return nil
  } catch {
    return error as? TuvaliError
  }
}
