import Bytes
import Common
import Store
import Transfers

/// What the verifier remembers beside the credentials, in the note of its spool.
///
/// | bytes | field |
/// |---|---|
/// | 1 | version, 1 |
/// | 8 | every number of a transfer below this one may have been given out, big endian |
/// | 8 | running time, in seconds, big endian |
struct VaultNote: Hashable, Sendable {
  static let version: UInt8 = 1
  /// So many numbers are set aside at a time. What is not used of them when the service ends is never used.
  static let block: UInt64 = 1000

  var numbers: UInt64 = 1
  /// For how many seconds the service has run, in all its runs: time that nobody can set. When the power is lost, what has
  /// passed since the note was written is not counted.
  var running: UInt64 = 0

  init() {}

  init(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    guard try reader.u8() == Self.version else { throw .badValue("version") }
    numbers = try reader.u64be()
    running = try reader.u64be()
    try reader.finish()
    guard (1...UInt64(Int64.max) / 2).contains(numbers) else { throw .badValue("numbers") }
  }

  var bytes: [UInt8] {
    var writer = ByteWriter(capacity: 17)
    writer.u8(Self.version)
    writer.u64be(numbers)
    writer.u64be(running)
    return writer.bytes
  }

  /// Sets numbers aside.
  ///
  /// - Returns: those that are free when the note is written.
  mutating func takeBlock() -> Range<Int> {
    let first = numbers
    numbers += Self.block
    return Int(clamping: first)..<Int(clamping: numbers)
  }

  /// The note in a spool. Where it is damaged or missing, the records in the spool say the least that it said.
  ///
  /// - Parameter stray: a number where free ones begin for certain, for a note that is lost.
  /// - Throws: what the disk says.
  static func read(
    from spool: RecordSpool, _ records: [CredentialRecord], stray: () -> UInt64
  ) throws(StoreError) -> VaultNote {
    var note = VaultNote()
    do throws(StoreError) {
      if let reading = try spool.note() {
        do throws(WireError) { note = try VaultNote(reading: reading.value) } catch { note.numbers = stray() }
        // The one that is damaged set one more block aside at most.
        if reading.damage != nil { note.numbers += block }
      }
    } catch {
      guard [.damaged, .diskFailed, .tooLarge, .wrongKind, .tooNew].contains(error.reason) else { throw error }
      note.numbers = stray()
    }
    for record in records {
      note.running = max(note.running, record.running)
      if record.number < TransferNumbers.strays.lowerBound { note.numbers = max(note.numbers, record.number + 1) }
    }
    return note
  }
}
