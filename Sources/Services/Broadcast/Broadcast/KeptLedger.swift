import Bytes
import PBLEC

/// Content of the state file: the record of notifications, and whether a program has set their maximum.
///
///     chosen  1  0 or 1
///     ledger     as `NotifyLedger` writes it
struct KeptLedger: Hashable, Sendable, WireValue {
  var isLimitChosen = false
  var ledger: NotifyLedger

  init(_ ledger: NotifyLedger, isLimitChosen: Bool = false) {
    (self.ledger, self.isLimitChosen) = (ledger, isLimitChosen)
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    let chosen = try reader.u8()
    guard chosen <= 1 else { throw .badValue("chosen") }
    isLimitChosen = chosen == 1
    ledger = try NotifyLedger(reading: &reader)
    try reader.finish()
  }

  func write(to writer: inout ByteWriter) {
    writer.u8(isLimitChosen ? 1 : 0)
    ledger.write(to: &writer)
  }
}
