import Common
import Store

/// Decides where received credentials are stored until they are judged and fetched: in memory, and in the spool if
/// there is a disk. A restart then does not lose a credential whose wallet was notified of success. It is a value:
/// time, date and results of disk operations are events, and its output is actions.
///
/// One disk operation is in progress at a time. Failed ones are retried. A caller waits for a hanging disk at most for
/// `patience`. Credentials that cannot be written are stored in memory only, and `trouble` reports it.
///
/// The age of a credential is measured by the monotonic clock, which cannot be set. Over a restart the wall clock is
/// used, by the dates of the files; these are corrected when the clock is set. The running time of the service is
/// counted too, and stored in the note.
struct CredentialStorePlan: Sendable {
  /// Maximum time that a caller waits for the disk.
  static let patience = Duration.seconds(5)
  /// Interval of retries after a failed disk operation.
  static let retryInterval = Duration.seconds(60)

  /// The one disk operation that is in progress.
  struct Work {
    enum Kind {
      case open, inspect
      case put(SpoolID, isAccepted: Bool)
      case accept(SpoolID)
      /// The bytes are the JSON of the verdict.
      case verdict(SpoolID, [UInt8])
      case erase(SpoolID)
      case redate(SpoolID, date: Int64)
      case note(CredentialStoreNote, Range<Int>?)
    }

    let kind: Kind
    /// Time after which the operation counts as hanging.
    let patienceEnds: Instant
    /// Whether `patienceEnds` has passed. Callers then do not wait for the disk until the operation ends.
    var isStalled = false
  }

  /// Time and actions of one call.
  struct Turn {
    let now: Instant
    /// Seconds since 1970 by the wall clock, which may be wrong.
    let date: Int64
    var actions: [Action] = []
  }

  private(set) var settings: CredentialStoreSettings
  /// Whether there is a disk. Without one, credentials are stored in memory only.
  let hasDisk: Bool
  /// Time at which `Event.timer` is due; nil if nothing is scheduled.
  var deadline: Instant?

  var isOpen = false
  /// Stored credentials, including those to be erased.
  var entries: [SpoolID: StoredCredential] = [:]
  var troubles: [Trouble: StoreError] = [:]
  var work: Work?
  /// Callers that wait until no disk operation is due.
  private(set) var idleAskers: [StoredCredential.Asker] = []
  /// Whether the spool has files whose records are not among the entries.
  var hasOtherFiles = false
  /// Number of files in the spool whose records do not fit the capacity.
  var filesWithoutRoom = 0
  var lookAt = Instant.zero
  var inspectAt = Instant.zero
  /// Number of files with corrected dates that are not in the journal yet.
  var redated = 0
  /// Transfer numbers and running time as the note on the disk has them, once the spool is open.
  var note = CredentialStoreNote()
  /// Time at which the note with transfer numbers and running time is written next.
  var noteAt = Instant.zero
  /// Whether more numbers of transfers must be reserved.
  var wantsNumbers = false
  /// Total running time of the service before this run, in seconds.
  var ranBefore: UInt64 = 0
  /// Time of the first event in this run of the service; nil before it.
  private(set) var began: Instant?
  private var lastOrder = 0

  init(_ settings: CredentialStoreSettings, hasDisk: Bool) {
    self.settings = settings
    self.hasDisk = hasDisk
  }

  /// - Parameters:
  ///   - now: time of the monotonic clock.
  ///   - date: seconds since 1970 by the wall clock.
  mutating func handle(_ event: Event, at now: Instant, date: Int64) -> [Action] {
    began = began ?? now
    var turn = Turn(now: now, date: date)
    switch event {
    case .start: if hasDisk, !isOpen, work == nil { open(&turn) }
    case .put(let id, let record, let asker): put(id, record, asker, &turn)
    case .accept(let id, let asker): accept(id, asker, &turn)
    case .verdict(let id, let verdict): note(verdict, of: id, &turn)
    case .remove(let id, let asker): remove(id, asker, &turn)
    case .awaitIdle(let asker, let limit):
      idleAskers.append(.init(number: asker, until: now.advanced(by: limit)))
      pump(&turn)
    case .settings(let settings): self.settings = settings
    case .numbersWanted:
      wantsNumbers = true
      pump(&turn)
    case .opened(let result): opened(result, &turn)
    case .done(let error): done(error, &turn)
    case .inspected(let result): inspected(result, &turn)
    case .clockSet: clockWasSet(&turn)
    case .timer: timer(&turn)
    }
    schedule(turn)
    return turn.actions
  }

  // MARK: Requests of the service

  private mutating func put(_ id: SpoolID, _ record: CredentialRecord, _ asker: Int, _ turn: inout Turn) {
    let size = record.fileSize
    guard size <= settings.maximumBytes - bytes else {
      turn.actions += [.forget(id), .answer(asker, .noRoom(settings.maximumBytes))]
      return
    }
    keep(StoredCredential(id: id, order: nextOrder(), size: size, record: record, date: turn.date, received: turn.now))
    ask(id, asker, &turn)
  }

  private mutating func accept(_ id: SpoolID, _ asker: Int, _ turn: inout Turn) {
    guard entries[id] != nil else { return turn.actions.append(.answer(asker, nil)) }
    setStatus(.accepted, of: id, &turn)
    ask(id, asker, &turn)
  }

  /// Whether there is capacity for a verdict of `count` bytes.
  func hasRoom(forVerdict count: Int, of id: SpoolID) -> Bool {
    guard let kept = entries[id] else { return false }
    return count == 0 || CredentialRecord.size(ofVerdict: count) - kept.verdictSize <= settings.maximumBytes - bytes
  }

  private mutating func note(_ verdict: [UInt8], of id: SpoolID, _ turn: inout Turn) {
    guard let kept = entries[id], kept.status != .unwanted, hasRoom(forVerdict: verdict.count, of: id) else { return }
    let size = CredentialRecord.size(ofVerdict: verdict.count)
    entries[id]?.size += size - kept.verdictSize
    entries[id]?.verdictSize = size
    entries[id]?.failure = nil
    // Without a disk, only the transfer stores the verdict.
    if hasDisk { entries[id]?.verdict = verdict }
    pump(&turn)
  }

  private mutating func remove(_ id: SpoolID, _ asker: Int, _ turn: inout Turn) {
    guard entries[id] != nil else { return turn.actions.append(.answer(asker, nil)) }
    discard(id, &turn)
    ask(id, asker, &turn)
  }

  /// Marks a credential as unwanted, so that its file is erased.
  mutating func discard(_ id: SpoolID, _ turn: inout Turn) {
    entries[id]?.record = nil
    entries[id]?.verdict = nil
    setStatus(.unwanted, of: id, &turn)
    guard entries[id]?.step == nil else { return }
    answer(id, &turn)
    forget(id, &turn)
  }

  private mutating func setStatus(_ status: StoredCredential.Status, of id: SpoolID, _ turn: inout Turn) {
    entries[id]?.failure = nil
    guard let before = entries[id]?.status, before != status else { return }
    entries[id]?.status = status
    // Callers of `put` need not wait any longer. Callers that judge wait for the disk, because a judged credential must
    // not reappear.
    if before == .unjudged { answer(id, &turn) }
  }

  /// Begins the operation that an entry needs, and answers the caller in time.
  private mutating func ask(_ id: SpoolID, _ asker: Int, _ turn: inout Turn) {
    let isDone = entries[id]?.step == nil || !hasDisk
    guard !isDone, work?.isStalled != true else {
      pump(&turn)
      turn.actions.append(.answer(asker, nil))
      return
    }
    entries[id]?.askers.append(.init(number: asker, until: turn.now.advanced(by: Self.patience)))
    pump(&turn)
  }

  // MARK: Answers

  /// Answers all callers that wait for an operation on a credential.
  mutating func answer(_ id: SpoolID, _ turn: inout Turn, error: StoreError? = nil) {
    guard let askers = entries[id]?.askers, !askers.isEmpty else { return }
    entries[id]?.askers = []
    turn.actions += askers.map { .answer($0.number, error) }
  }

  mutating func answerAll(_ turn: inout Turn) {
    for id in inOrder.map(\.id) { answer(id, &turn) }
  }

  mutating func answerIdle(_ turn: inout Turn, where isDue: (StoredCredential.Asker) -> Bool = { _ in true }) {
    turn.actions += idleAskers.filter(isDue).map { .answer($0.number, nil) }
    idleAskers.removeAll(where: isDue)
  }

  /// Performs due work, and answers the callers whose timeout has passed.
  private mutating func timer(_ turn: inout Turn) {
    let now = turn.now
    if let work, work.patienceEnds <= now { stall(&turn) }
    for kept in inOrder where kept.askers.contains(where: { $0.until <= now }) {
      stall(&turn)
      answer(kept.id, &turn)
    }
    answerIdle(&turn) { $0.until <= now }
    lookThrough(&turn)
  }

  // MARK: Entries

  mutating func nextOrder() -> Int {
    lastOrder += 1
    return lastOrder
  }

  mutating func keep(_ kept: StoredCredential) { entries[kept.id] = kept }

  mutating func forget(_ id: SpoolID, _ turn: inout Turn) {
    entries[id] = nil
    turn.actions.append(.forget(id))
  }

  /// Stored credentials in the order in which they arrived.
  var inOrder: [StoredCredential] { entries.values.sorted { $0.order < $1.order } }

  /// Space used by the wanted credentials, in bytes.
  var bytes: Int { entries.values.reduce(0) { $0 + ($1.status == .unwanted ? 0 : $1.size) } }

  /// Number of stored credentials, and of files to be erased.
  var kept: (waiting: Int, erasing: Int) {
    let erasing = entries.values.count { $0.status == .unwanted }
    return (entries.count - erasing, erasing)
  }

  /// Time at which the next caller must be answered.
  var answersDue: Instant? { (entries.values.flatMap(\.askers) + idleAskers).map(\.until).min() }
}

extension StoreError {
  /// Error for a credential that exceeds the capacity.
  static func noRoom(_ bytes: Int) -> StoreError {
    StoreError(
      .spoolFull,
      "The credential does not fit: credentials that wait to be judged and fetched may have \(bytes) bytes in total.")
  }
}

extension CredentialStorePlan {
  /// Input of the store. A caller is identified by a number of the owner's, and answered once, by `Action.answer`.
  enum Event {
    /// The service starts, and restores the credentials of an earlier run.
    case start
    /// A credential was received, and gets this name. The caller is answered when the credential is durable, or with an
    /// error if there is no capacity. A failing or hanging disk causes no error.
    case put(SpoolID, CredentialRecord, asker: Int)
    /// A credential was accepted, and is stored until a program fetches it. The caller is answered when this is
    /// durable, or the disk fails.
    case accept(SpoolID, asker: Int)
    /// The checker's verdict on a credential, JSON. `hasRoom(forVerdict:of:)` has confirmed the capacity.
    case verdict(SpoolID, [UInt8])
    /// A credential is no longer needed. The caller is answered when its removal is durable, or the disk fails.
    case remove(SpoolID, asker: Int)
    /// A caller waits until no operation is due except failed ones. It is answered then, or after `limit`.
    case awaitIdle(asker: Int, limit: Duration)
    case settings(CredentialStoreSettings)
    /// Few reserved transfer numbers are left, so that more must be reserved.
    case numbersWanted

    // Results of disk operations; each answers the action of that name.
    case opened(Result<Found, StoreError>)
    case inspected(Result<Found, StoreError>)
    /// `put`, `accept`, `verdict`, `erase`, `redate` or `note` has ended; the error is nil on success.
    case done(StoreError?)

    /// The wall clock was set, so the dates of files may be wrong.
    case clockSet
    /// The time of `deadline` was reached.
    case timer
  }

  /// Result of an inspection of the spool.
  struct Found: Sendable {
    var contents: SpoolContents<CredentialRecord>
    /// Number of credentials in the spool that were erased because they had expired.
    var tooOld = 0
    /// Note on disk. Set only for `opened`.
    var note = CredentialStoreNote()
    /// Numbers that this note has reserved for this run; nil if writing it failed.
    var numbers: Range<Int>?
  }
}

/// Configured limits on the age and the total size of stored credentials.
public struct CredentialStoreSettings: Hashable, Sendable {
  /// Time after which a stored credential is erased.
  public var keepFor = Duration.seconds(86_400)
  /// Maximum space of all stored credentials, as files, in bytes.
  public var maximumBytes = 64 << 20

  public init(keepFor: Duration = .seconds(86_400), maximumBytes: Int = 64 << 20) {
    self.keepFor = keepFor
    self.maximumBytes = maximumBytes
  }
}

extension CredentialStorePlan {
  /// Output of the store, to be performed in order.
  enum Action: Equatable {
    // Disk operations. One at a time is in progress, until the event that answers it.

    /// Open the spool, and inspect it. `Event.opened` answers.
    case open(Look)
    /// Inspect the spool again. `Event.inspected` has the result.
    case inspect(Look)
    /// Write a record. `Event.done` answers this action and the next five.
    case put(SpoolID, CredentialRecord, date: Int64, isAccepted: Bool)
    /// Mark a credential in the spool as accepted.
    case accept(SpoolID)
    /// Add the checker's verdict, JSON, to a record.
    case verdict(SpoolID, [UInt8])
    /// Erase a record.
    case erase(SpoolID)
    /// Change the date of a record, in seconds since 1970.
    case redate(SpoolID, date: Int64)

    /// Write the note with transfer numbers and running time. `Event.done` answers.
    case note(CredentialStoreNote)

    // Notifications of the service.

    /// New transfers may use these numbers, which no other run uses.
    case numbers(Range<Int>)

    /// Answer a caller; with an error if the credential is not stored.
    case answer(Int, StoreError?)
    /// Restore a credential of an earlier run.
    case restore(SpoolID, CredentialRecord, isAccepted: Bool)
    /// A credential has expired: the service must forget it; it is erased.
    case expire(SpoolID, isAccepted: Bool)
    /// The store no longer contains the record with this name.
    case forget(SpoolID)
    /// `trouble` has changed, or credentials were restored.
    case changed
    case log(Notice)
  }

  /// Parameters of an inspection of the spool.
  struct Look: Equatable {
    /// Records that are in the store. They are neither read nor erased, whatever their dates.
    var except: Set<SpoolID> = []
    /// Maximum bytes of files to read.
    var room: Int
    /// Records received more than `keepFor` before `date` are erased first.
    var keepFor: Duration
    /// Seconds since 1970; nil if the date is unknown, and nothing expires.
    var date: Int64?
  }

  /// An event of the store that the service writes to the journal.
  enum Notice: Equatable {
    /// An operation on stored credentials fails.
    case degraded(Trouble, StoreError)
    /// After a problem all disk operations succeed again.
    case recovered
    /// Number of restored credentials of an earlier run.
    case restored(Int)
    /// Number of files that stay in the spool until there is capacity for their credentials.
    case withoutRoom(Int)
    /// Number of expired credentials that were erased from disk.
    case tooOld(Int)
    /// Number of files whose date was corrected after the wall clock was set.
    case redated(Int)
  }
}

/// Problems of storing credentials, for an administrator.
extension CredentialStorePlan {
  /// Kinds of problems, the worst first.
  enum Trouble: CaseIterable {
    /// The spool cannot be opened, so nothing is stored on the disk.
    case opening
    /// The disk does not answer an operation in time.
    case stalled
    case writing, erasing, verdicts, dating, noting
    /// The spool has files that cannot be read.
    case unreadable

    /// Beginning of the journal line about the fault; the reason follows.
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
