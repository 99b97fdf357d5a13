import Common
import Store

/// Problems of storing credentials, for an administrator.
extension CredentialVault {
  /// Kinds of problems, the worst first.
  enum Trouble: CaseIterable {
    /// The spool cannot be opened.
    case opening
    /// The disk hangs.
    case stalled
    case writing, erasing, verdicts, dating, noting
    /// There are files that cannot be read.
    case unreadable

    /// Beginning of the journal line, before the reason.
    var sentence: String {
      switch self {
      case .opening, .stalled, .writing: "Credentials are stored in memory only"
      case .erasing: "A credential that is no longer needed could not be erased yet"
      case .verdicts: "Verdicts on credentials are stored in memory only"
      case .dating: "Stored credentials have a wrong date since the clock was set"
      case .noting: "Transfer numbers and waiting times of credentials are not stored across a restart"
      case .unreadable: "Stored credentials cannot be read"
      }
    }
  }

  /// Worst problem of storing credentials over a restart; nil if there is none.
  var trouble: StoreError? { worst.flatMap { troubles[$0] } }

  /// Short sentence for `systemctl status`; empty if there is no problem.
  var troubleInShort: String { worst.map { "\($0.sentence)." } ?? "" }

  private var worst: Trouble? { Trouble.allCases.first { troubles[$0] != nil } }

  mutating func complain(_ trouble: Trouble, _ error: StoreError, _ turn: inout Turn) {
    // A further error of the same kind is not reported, unless it contains the number of unreadable files.
    guard troubles[trouble] != error, troubles[trouble]?.reason != error.reason || trouble == .unreadable else {
      return
    }
    let isKnown = troubles.values.contains { $0.reason == error.reason }
    troubles[trouble] = error
    if !isKnown { turn.actions.append(.log(.degraded(trouble, error))) }
    turn.actions.append(.changed)
  }

  mutating func end(_ trouble: Trouble, _ turn: inout Turn) {
    guard troubles.removeValue(forKey: trouble) != nil else { return }
    if troubles.isEmpty { turn.actions.append(.log(.recovered)) }
    turn.actions.append(.changed)
  }

  /// Reports the contents of the spool.
  mutating func report(_ contents: SpoolContents<CredentialRecord>, _ turn: inout Turn) {
    if !contents.entries.isEmpty { turn.actions += [.log(.restored(contents.entries.count)), .changed] }
    defer { filesWithoutRoom = contents.withoutRoom }
    if contents.withoutRoom > filesWithoutRoom { turn.actions.append(.log(.withoutRoom(contents.withoutRoom))) }
    // Files that were set aside are counted as damaged.
    let unreadable = contents.problems.filter { $0.error.reason != .damaged }
    let number = max(contents.problems.count, unreadable.count + contents.damaged)
    guard number > 0 else { return end(.unreadable, &turn) }
    let first = contents.problems.first?.error
    let sentence =
      first?.sentence ?? "Damaged files stay in the spool as *.damaged. Remove them, or the service removes them later."
    complain(
      .unreadable, StoreError(first?.reason ?? .damaged, "\(number) cannot be read; the first: \(sentence)"), &turn)
  }
}
