import Bytes
import Common
import Store
import Transfers

/// Persistent data of the verifier beside the credentials, in the note of its spool.
/// | bytes | field |
/// |---|---|
/// | 1 | version, 1 |
/// | 8 | every number of a transfer below this one may have been given out, big endian |
/// | 8 | running time, in seconds, big endian |
struct CredentialStoreNote: Hashable, Sendable {
  static let version: UInt8 = 1
  /// Numbers reserved at a time. Unused ones are lost at the end of the service.
  static let block: UInt64 = 1000

  var numbers: UInt64 = 1
  /// Total running time of the service in seconds, independent of settable clocks. A loss of power drops the time since
  /// the last write of the note.
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

  /// Reserves numbers.
  ///
  /// - Returns: the numbers that are free once the note is written.
  mutating func takeBlock() -> Range<Int> {
    let first = numbers
    numbers += Self.block
    return Int(clamping: first)..<Int(clamping: numbers)
  }

  /// Reads the note of a spool. If it is damaged or missing, minimum values are derived from the records.
  ///
  /// - Parameter stray: returns a number from which all are certainly free, for a lost note.
  /// - Throws: errors of the disk.
  static func read(
    from spool: RecordSpool, _ records: [CredentialRecord], stray: () -> UInt64
  ) throws(StoreError) -> CredentialStoreNote {
    var note = CredentialStoreNote()
    do throws(StoreError) {
      if let reading = try spool.note() {
        do throws(WireError) { note = try CredentialStoreNote(reading: reading.value) } catch { note.numbers = stray() }
        // The damaged note has reserved at most one more block.
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
