import Common
import Journal
import Radio

/// Decides which transfers and warnings about phones the verifier writes to the journal.
///
/// A phone has a number of transfers in a minute, and the same number of warnings that belong to no written transfer, so its
/// ordinary transfers cannot hide a failure. The lines of one transfer are written all or not at all: where the verifier did not write
/// the start and must write the end, it writes the start first.
struct TransferJournal {
  private struct Key: Hashable {
    enum Kind { case transfer, warning }

    let peer: BluetoothAddress?
    let kind: Kind
  }

  private var budget: RateLimiter<Key>
  /// Numbers of the transfers whose start was not written. The list of transfers bounds them.
  private var unwritten: Set<Int> = []

  /// - Parameter perPeer: transfers of one phone that are written in a minute, and warnings about it.
  init(perPeer: Int) {
    budget = RateLimiter(perMinute: perPeer, capacity: 64)
  }

  var perPeer: Int {
    get { budget.perMinute }
    set { budget.perMinute = newValue }
  }

  /// How many transfers and warnings were not written.
  var total: UInt64 { budget.total }

  /// The same since this was last asked.
  mutating func takeLeftOut() -> UInt64 { budget.takeSuppressed() }

  /// A transfer begins.
  ///
  /// - Returns: whether its start is to be written, and all its other lines with it.
  mutating func begin(_ number: Int, of peer: BluetoothAddress?, at now: Instant) -> Bool {
    let isWritten = budget.allow(Key(peer: peer, kind: .transfer), at: now)
    if !isWritten { unwritten.insert(number) }
    return isWritten
  }

  /// Whether the start of a transfer was written, in this run or in an earlier one.
  func writes(_ number: Int) -> Bool { !unwritten.contains(number) }

  /// The start of a transfer is written late, before its end.
  ///
  /// - Returns: false where it was written in time.
  mutating func catchUp(_ number: Int) -> Bool { unwritten.remove(number) != nil }

  /// Whether a warning about a phone may be written that belongs to no written transfer.
  mutating func warns(of peer: BluetoothAddress?, at now: Instant) -> Bool {
    budget.allow(Key(peer: peer, kind: .warning), at: now)
  }

  /// A transfer is no longer in the list.
  mutating func forget(_ number: Int) { unwritten.remove(number) }
}
