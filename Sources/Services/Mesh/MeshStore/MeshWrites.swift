/// Desired state of a row.
struct MeshRow: Hashable, Sendable {
  let id: Int64
  /// Milliseconds since 1970; not encrypted on disk.
  let time: UInt64
  /// Content to seal; nil to remove the row.
  let content: [UInt8]?
}

/// Writes of one commit. Later writes to a row replace earlier ones, so their order does not matter.
struct MeshWrites: Sendable {
  var rows: [Int64: MeshRow] = [:]
  /// Whether removed content must also be purged from the write-ahead log.
  var emptiesLog = false
  /// Numbers of removed messages.
  var removedMessages: [UInt32] = []
  /// Numbers of removed files.
  var removedFiles: [UInt32] = []
  /// Places of file contents to erase after the commit.
  var erased: Set<UInt64> = []

  var isEmpty: Bool { rows.isEmpty && !emptiesLog && erased.isEmpty }

  /// Adds later writes.
  mutating func add(_ later: MeshWrites) {
    rows.merge(later.rows) { _, new in new }
    emptiesLog = emptiesLog || later.emptiesLog
    removedMessages += later.removedMessages
    removedFiles += later.removedFiles
    erased.formUnion(later.erased)
  }
}
