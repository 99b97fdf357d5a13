import Common
import Journal
import Radio

/// Decides which transfers, and which warnings about phones, the verifier writes to the journal.
///
/// Each phone has a quota of transfers per minute, and an equal quota of warnings outside of written transfers, so
/// that its ordinary transfers cannot hide a failure. Either all lines of a transfer are written, or none. If only
/// the end must be written, the start is written before it.
struct TransferJournal {
  private struct Key: Hashable {
    enum Kind { case transfer, warning }

    let peer: BluetoothAddress?
    let kind: Kind
  }

  private var budget: RateLimiter<Key>
  /// Numbers of the transfers whose start was not written, bounded by the list of transfers.
  private var unwritten: Set<Int> = []

  /// - Parameter perPeer: transfers of one phone that are written per minute, and warnings about it.
  init(perPeer: Int) {
    budget = RateLimiter(perMinute: perPeer, capacity: 64)
  }

  var perPeer: Int {
    get { budget.perMinute }
    set { budget.perMinute = newValue }
  }

  /// Number of transfers and warnings that were not written.
  var total: UInt64 { budget.total }

  /// Returns the number of lines omitted since the last call.
  mutating func takeLeftOut() -> UInt64 { budget.takeSuppressed() }

  /// Records the start of a transfer.
  ///
  /// - Returns: whether the start and all other lines of it are written.
  mutating func begin(_ number: Int, of peer: BluetoothAddress?, at now: Instant) -> Bool {
    let isWritten = budget.allow(Key(peer: peer, kind: .transfer), at: now)
    if !isWritten { unwritten.insert(number) }
    return isWritten
  }

  /// Whether the start of a transfer was written, in this run or in an earlier one.
  func writes(_ number: Int) -> Bool { !unwritten.contains(number) }

  /// Records that the start of a transfer is written late, before its end.
  ///
  /// - Returns: false if it was written in time.
  mutating func catchUp(_ number: Int) -> Bool { unwritten.remove(number) != nil }

  /// Whether to write a warning about a phone outside of a written transfer.
  mutating func warns(of peer: BluetoothAddress?, at now: Instant) -> Bool {
    budget.allow(Key(peer: peer, kind: .warning), at: now)
  }

  /// Removes a transfer that is no longer listed.
  mutating func forget(_ number: Int) { unwritten.remove(number) }
}
