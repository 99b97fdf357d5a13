import Bytes
import Crypto
import TestSupport

@testable import Store

/// A state directory on a simulated disk, with helpers.
struct Fixture {
  let disk = SimulatedDisk()
  var key: SpoolKey
  var limits = RecordSpool.Limits()

  init() throws {
    key = try SpoolKey(SecretBytes(copying: (0..<32).map { UInt8($0) }), .systemCredential)
    disk.placeDirectory("/state")
  }

  /// Calls `body` with 1, 2 and so on, each time with a new fixture, until it returns true.
  ///
  /// - Parameter body: loses power at the call of the disk with this number, and returns whether that call was never
  ///   made.
  /// - Returns: the last number.
  static func losingPower(_ body: (Fixture, Int) throws -> Bool) throws -> Int {
    var number = 1
    while try !body(Fixture(), number) { number += 1 }
    return number
  }

  func state() throws(StoreError) -> StateDirectory { try StateDirectory(path: "/state", on: disk) }

  func spool(seed: UInt64 = 1) throws(StoreError) -> RecordSpool {
    try RecordSpool(in: state(), key: key, limits: limits, random: SeededRandom(seed: seed))
  }

  var files: [String] { disk.names(in: "/state/spool") }

  static func path(_ id: SpoolID, _ ending: String = "00.record") -> String { "/state/spool/\(id).\(ending)" }
  static func record(_ text: String, received: Int64 = 1_700_000_000, mark: UInt8 = 0) -> SpoolRecord {
    SpoolRecord(received: received, mark: mark, content: Array(text.utf8))
  }
}

extension RecordSpool {
  /// The records on the disk.
  func list(
    except known: Set<SpoolID> = [], room: (count: Int, bytes: Int) = (.max, .max)
  ) throws(StoreError) -> SpoolContents<SpoolRecord> {
    try list(except: known, room: room) { (record) throws(WireError) in record }
  }
}

extension SpoolContents {
  var ids: [SpoolID] { entries.map(\.id) }
  var values: [Value] { entries.map(\.value) }
  var byID: [SpoolID: Value] {
    Dictionary(entries.map { ($0.id, $0.value) }, uniquingKeysWith: { first, _ in first })
  }
  var reasons: [StoreError.Reason] { problems.map(\.error.reason) }
}

/// Copies of the bytes with any one bit flipped, any number of bytes missing at the end, and one byte appended.
func brokenCopies(of whole: [UInt8]) -> [[UInt8]] {
  var copies: [[UInt8]] = [whole + [0]]
  for bit in 0..<whole.count * 8 {
    var bytes = whole
    bytes[bit / 8] ^= 1 << UInt8(bit % 8)
    copies.append(bytes)
  }
  for count in 0..<whole.count { copies.append(Array(whole.prefix(count))) }
  return copies
}
