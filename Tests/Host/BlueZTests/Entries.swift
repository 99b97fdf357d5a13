import Common
import Journal

/// The entries of a journal, as a test reads them.
final class Entries: Sendable {
  private let records = Locked<[LogRecord]>([])

  var all: [LogRecord] { records.withLock { $0 } }

  func add(_ record: LogRecord) {
    records.withLock { $0.append(record) }
  }
}
