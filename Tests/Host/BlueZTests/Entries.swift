import Common
import Journal

/// The journal entries that the tested code wrote, in order.
final class Entries: Sendable {
  private let records = Locked<[LogRecord]>([])

  var all: [LogRecord] { records.withLock { $0 } }

  func add(_ record: LogRecord) {
    records.withLock { $0.append(record) }
  }
}
