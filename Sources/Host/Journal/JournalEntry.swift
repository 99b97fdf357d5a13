import CSystemdJournal
import Glibc

/// A log record in the journal's own form: a list of `NAME=value`, one of them the sentence.
struct JournalEntry {
  let assignments: [String]

  init(_ record: LogRecord, identifier: String) {
    var assignments = [
      "MESSAGE=\(record.text)",
      "PRIORITY=\(record.level.rawValue)",
      "SYSLOG_IDENTIFIER=\(identifier)",
      "CODE_FILE=\(record.file)",
      "CODE_FUNC=\(record.function)",
      "CODE_LINE=\(record.line)",
    ]
    if let id = record.id { assignments.append("MESSAGE_ID=\(id.hex)") }
    for field in record.fields { assignments.append("\(field.name)=\(field.value)") }
    self.assignments = assignments
  }

  /// Hands the entry to the journal. A journal that does not listen or is full loses the line: logging never fails.
  func send() {
    // One buffer for all assignments, so that every iovec points into the same living array.
    var bytes: [UInt8] = []
    var ranges: [Range<Int>] = []
    for assignment in assignments {
      let start = bytes.count
      bytes += assignment.utf8
      ranges.append(start..<bytes.count)
    }
    bytes.withUnsafeMutableBytes { buffer in
      guard let base = buffer.baseAddress else { return }
      let vectors = ranges.map { iovec(iov_base: base + $0.lowerBound, iov_len: $0.count) }
      _ = sd_journal_sendv(vectors, Int32(vectors.count))
    }
  }
}
