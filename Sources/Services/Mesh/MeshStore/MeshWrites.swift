/// A row as it shall be.
struct MeshRow: Hashable, Sendable {
  let id: Int64
  /// Milliseconds since 1970; in the clear on the disk.
  let time: UInt64
  /// What is to be sealed; nil if the row is to go.
  let content: [UInt8]?
}

/// What has to be done on the disk, all at once. Of each row the last word counts, so the order does not matter.
struct MeshWrites: Sendable {
  var rows: [Int64: MeshRow] = [:]
  /// Whether what is removed has to be out of the log as well.
  var emptiesLog = false
  /// Messages that had to go.
  var removedMessages: [UInt32] = []
  /// Files that had to go.
  var removedFiles: [UInt32] = []
  /// The places of contents that are to be erased, after all else is done.
  var erased: Set<UInt64> = []

  var isEmpty: Bool { rows.isEmpty && !emptiesLog && erased.isEmpty }

  /// Adds what comes later.
  mutating func add(_ later: MeshWrites) {
    rows.merge(later.rows) { _, new in new }
    emptiesLog = emptiesLog || later.emptiesLog
    removedMessages += later.removedMessages
    removedFiles += later.removedFiles
    erased.formUnion(later.erased)
  }
}
