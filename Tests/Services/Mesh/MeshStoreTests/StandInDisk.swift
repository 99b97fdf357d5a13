import Common
import Store
import Testing

@testable import MeshStore

/// A disk in memory that refuses operations on request.
final class StandInDisk: MeshDisk {
  struct State: Sendable {
    var rows: [Int64: MeshRow] = [:]
    /// The rows of each requested commit, including failed commits.
    var commits: [[Int64]] = []
    var refusals: [StoreError] = []
    var wipeRefusal: StoreError?
    var isKeyForeign = false
    var wipes = 0
    var emptied = 0
    var files: [UInt64: [UInt8]] = [:]
    var refusesCommits = false
  }

  let state = Locked(State())

  func write(_ content: [UInt8], to place: UInt64) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      if !state.refusals.isEmpty { throw state.refusals.removeFirst() }
      state.files[place] = content
    }
  }

  func read(_ place: UInt64) throws(StoreError) -> [UInt8] {
    guard let content = state.withLock({ $0.files[place] }) else { throw StoreError(.missing, "It is gone.") }
    return content
  }

  func open() throws(StoreError) -> DiskContents {
    try state.withLock { (state) throws(StoreError) in
      if !state.refusals.isEmpty { throw state.refusals.removeFirst() }
      var contents = DiskContents()
      contents.files = Set(state.files.keys)
      contents.rows = state.rows.values.sorted { $0.id < $1.id }.compactMap { row in
        row.content.map { DiskContents.Row(id: row.id, time: row.time, content: $0) }
      }
      return contents
    }
  }

  func commit(_ writes: MeshWrites) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      state.commits.append(writes.rows.keys.sorted())
      if state.refusesCommits { throw NodeStoreTests.full }
      if !state.refusals.isEmpty { throw state.refusals.removeFirst() }
      for row in writes.rows.values { state.rows[row.id] = row.content == nil ? nil : row }
      for place in writes.erased { state.files[place] = nil }
      if writes.emptiesLog { state.emptied += 1 }
    }
  }

  func erase(_ place: UInt64) {
    state.withLock { state in
      let isNamed = state.rows.values.contains { $0.names(place) }
      #expect(!isNamed, "a row names what is erased")
      state.files[place] = nil
    }
  }

  func wipe(keeping number: UInt32) throws(StoreError) -> Bool {
    try state.withLock { (state) throws(StoreError) in
      state.wipes += 1
      if let refusal = state.wipeRefusal { throw refusal }
      (state.rows, state.files) = ([:], [:])
      return !state.isKeyForeign
    }
  }

  /// Refuses all commits, but stores contents.
  var refusesCommits: Bool {
    get { state.withLock { $0.refusesCommits } }
    set { state.withLock { $0.refusesCommits = newValue } }
  }

  /// The errors of the next calls, in order.
  func refuse(_ errors: StoreError...) { state.withLock { $0.refusals = errors } }

  var commits: Int { state.withLock { $0.commits.count } }
  var count: Int { state.withLock { $0.rows.count } }
}

extension MeshRow {
  /// Whether the row describes the file whose content has this number.
  fileprivate func names(_ place: UInt64) -> Bool {
    guard let content, case .file(let file) = try? MeshRecord(reading: content) else { return false }
    return file.place == place
  }
}
