import Common
import Journal
import Store

/// What is wrong with keeping credentials, for those who look after the machine.
extension CredentialVault {
  /// The worst comes first.
  enum Trouble: CaseIterable {
    /// There is no spool.
    case opening
    /// The disk hangs.
    case stalled
    case writing, erasing, dating
    /// There are files that cannot be read.
    case unreadable

    /// In the journal, before the reason.
    fileprivate var sentence: String {
      switch self {
      case .opening, .stalled, .writing: "Credentials are kept in memory only"
      case .erasing: "A credential that nobody wants any more is not erased yet"
      case .dating: "Kept credentials keep a date that is wrong since the clock was set"
      case .unreadable: "Kept credentials cannot be read"
      }
    }
  }

  /// What is wrong with keeping credentials over a restart; nil when nothing is.
  public var trouble: StoreError? { worst.flatMap { troubles[$0] } }

  /// The same for `systemctl status`: a few words; empty when nothing is wrong.
  public var troubleInShort: String { worst.map { "\($0.sentence)." } ?? "" }

  private var worst: Trouble? { Trouble.allCases.first { troubles[$0] != nil } }

  func complain(_ trouble: Trouble, _ error: StoreError) {
    // The next one says the same of another file, unless it says how many there are.
    guard troubles[trouble] != error, troubles[trouble]?.reason != error.reason || trouble == .unreadable else {
      return
    }
    let isKnown = troubles.values.contains { $0.reason == error.reason }
    troubles[trouble] = error
    if !isKnown { Log.shared.error("\(trouble.sentence): \(error)", id: .storeDegraded, .error(error)) }
    changed()
  }

  func end(_ trouble: Trouble) {
    guard troubles.removeValue(forKey: trouble) != nil else { return }
    if troubles.isEmpty { Log.shared.notice("Keeping credentials on the disk works again") }
    changed()
  }

  func tellOfOld(_ count: Int) {
    guard count > 0 else { return }
    Log.shared.warning("\(count) kept credentials waited too long and are erased")
  }

  /// Where the key is from, once; and what does not look right about it.
  func tellOfKey(_ spool: CredentialSpool) {
    let key = spool.key
    let origin: String =
      switch key.origin {
      case .systemCredential: "systemd's credential \(SpoolKey.credentialName)"
      case .stateDirectory: "the state directory"
      case .made: "the state directory, where it was made just now"
      }
    Log.shared.info("Credentials are kept on the disk, under the key from \(origin)")
    if key.isMissingFromCredentials {
      Log.shared.warning(
        "systemd hands over credentials, but none that is called \(SpoolKey.credentialName): the key is another one")
    }
    if key.origin == .made, spool.count > 0 {
      Log.shared.warning("There are credentials under another key, which cannot be read with the one that was made now")
    }
  }

  /// What was found in the spool.
  func tell(of contents: SpoolContents) {
    let count = contents.credentials.count
    if count > 0 {
      Log.shared.notice("\(count) credentials from before the start are here again", id: .storeRestored)
      changed()
    }
    defer { left = contents.left }
    if contents.left > left {
      Log.shared.warning("\(contents.left) kept credentials wait on the disk until there is room for them")
    }
    // One that was set aside is among the damaged ones.
    let unreadable = contents.problems.filter { $0.error.reason != .damaged }
    let number = max(contents.problems.count, unreadable.count + contents.damaged)
    guard number > 0 else { return end(.unreadable) }
    let first = contents.problems.first?.error
    let sentence =
      first?.sentence ?? "Damaged files are kept as *.damaged in the spool. Remove them, or they go in time."
    complain(.unreadable, StoreError(first?.reason ?? .damaged, "\(number) cannot be read; the first: \(sentence)"))
  }
}
