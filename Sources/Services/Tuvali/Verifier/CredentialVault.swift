import Common
import Store

/// Decides where received credentials are kept until they are judged and fetched: in memory, and in the spool where there
/// is a disk, so that a restart does not lose a credential whose wallet heard of success. It is a value: time, the date and what
/// the disk did come in as events, and what is to be done goes out as actions.
///
/// One thing at a time is done on the disk. What the disk refuses is tried again, and a disk that hangs keeps no asker
/// waiting for longer than `patience`: what cannot be written is kept in memory alone, and `trouble` says so.
///
/// How long a credential has been kept is measured by the monotonic clock, which cannot be set. Only over a restart the
/// wall clock has to do, by the dates in the files; where it is set meanwhile, those are set with it. What the service itself ran
/// is counted in any case, and kept in the note.
struct CredentialVault: Sendable {
  /// The longest time that an asker waits for the disk.
  static let patience = Duration.seconds(5)
  /// What the disk refused is tried again after this time.
  static let retryInterval = Duration.seconds(60)

  /// Something that is being done on the disk.
  struct Work {
    enum Kind {
      case open, inspect
      case put(SpoolID, isAccepted: Bool)
      case accept(SpoolID)
      /// The bytes are of the verdict's JSON.
      case verdict(SpoolID, [UInt8])
      case erase(SpoolID)
      case redate(SpoolID, date: Int64)
      case note(VaultNote, Range<Int>?)
    }

    let kind: Kind
    /// From this instant on the disk is said to hang.
    let patienceEnds: Instant
    /// It takes longer than that: no asker waits for the disk until it comes to an end.
    var isStalled = false
  }

  /// What an event finds, and what is to be done about it.
  struct Turn {
    let now: Instant
    /// Seconds since 1970 by the wall clock, which may be wrong.
    let date: Int64
    var actions: [Action] = []
  }

  private(set) var settings: VaultSettings
  /// Without a disk credentials are kept in memory alone.
  let hasDisk: Bool
  /// When `Event.timer` is due; nil when nothing is timed.
  var deadline: Instant?

  var isOpen = false
  /// Those to be erased are among them until they are erased.
  var entries: [SpoolID: KeptCredential] = [:]
  var troubles: [Trouble: StoreError] = [:]
  var work: Work?
  /// They wait until nothing is to be done on the disk.
  private(set) var idleAskers: [KeptCredential.Asker] = []
  /// There are files in the spool whose records are not among the entries.
  var hasOtherFiles = false
  /// How many of those files are there for want of room.
  var filesWithoutRoom = 0
  var lookAt = Instant.zero
  var inspectAt = Instant.zero
  /// Files that got another date, and are not in the journal yet.
  var redated = 0
  /// As it is on the disk, once the spool is open.
  var note = VaultNote()
  /// When the note is written next, as far as it matters.
  var noteAt = Instant.zero
  /// More numbers of transfers are to be set aside.
  var wantsNumbers = false
  /// For how many seconds the service ran before this run.
  var ranBefore: UInt64 = 0
  /// When this run began.
  private(set) var began: Instant?
  private var lastOrder = 0

  init(_ settings: VaultSettings, hasDisk: Bool) {
    self.settings = settings
    self.hasDisk = hasDisk
  }

  /// - Parameters:
  ///   - now: of the monotonic clock.
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

  // MARK: What the service asks for

  private mutating func put(_ id: SpoolID, _ record: CredentialRecord, _ asker: Int, _ turn: inout Turn) {
    let size = record.fileSize
    guard size <= settings.maximumBytes - bytes else {
      turn.actions += [.forget(id), .answer(asker, .noRoom(settings.maximumBytes))]
      return
    }
    keep(KeptCredential(id: id, order: nextOrder(), size: size, record: record, date: turn.date, received: turn.now))
    ask(id, asker, &turn)
  }

  private mutating func accept(_ id: SpoolID, _ asker: Int, _ turn: inout Turn) {
    guard entries[id] != nil else { return turn.actions.append(.answer(asker, nil)) }
    setStatus(.accepted, of: id, &turn)
    ask(id, asker, &turn)
  }

  /// Whether there is capacity for a verdict of `count` bytes beside everything that is stored.
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
    // Without a disk the transfer alone has it.
    if hasDisk { entries[id]?.verdict = verdict }
    pump(&turn)
  }

  private mutating func remove(_ id: SpoolID, _ asker: Int, _ turn: inout Turn) {
    guard entries[id] != nil else { return turn.actions.append(.answer(asker, nil)) }
    discard(id, &turn)
    ask(id, asker, &turn)
  }

  /// Marks a credential as unwanted: its file is to be erased.
  mutating func discard(_ id: SpoolID, _ turn: inout Turn) {
    entries[id]?.record = nil
    entries[id]?.verdict = nil
    setStatus(.unwanted, of: id, &turn)
    guard entries[id]?.step == nil else { return }
    answer(id, &turn)
    forget(id, &turn)
  }

  private mutating func setStatus(_ status: KeptCredential.Status, of id: SpoolID, _ turn: inout Turn) {
    entries[id]?.failure = nil
    guard let before = entries[id]?.status, before != status else { return }
    entries[id]?.status = status
    // Who has it kept need not wait until it is. Who has judged it waits for the disk: what is judged must not come back.
    if before == .unjudged { answer(id, &turn) }
  }

  /// Does what has to be done for an entry, and answers the asker in time.
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

  /// The askers of an entry wait no longer for the disk.
  mutating func answer(_ id: SpoolID, _ turn: inout Turn, error: StoreError? = nil) {
    guard let askers = entries[id]?.askers, !askers.isEmpty else { return }
    entries[id]?.askers = []
    turn.actions += askers.map { .answer($0.number, error) }
  }

  mutating func answerAll(_ turn: inout Turn) {
    for id in inOrder.map(\.id) { answer(id, &turn) }
  }

  mutating func answerIdle(_ turn: inout Turn, where isDue: (KeptCredential.Asker) -> Bool = { _ in true }) {
    turn.actions += idleAskers.filter(isDue).map { .answer($0.number, nil) }
    idleAskers.removeAll(where: isDue)
  }

  /// Does what is due now, and answers the askers that have waited for long enough.
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

  // MARK: What there is

  mutating func nextOrder() -> Int {
    lastOrder += 1
    return lastOrder
  }

  mutating func keep(_ kept: KeptCredential) { entries[kept.id] = kept }

  mutating func forget(_ id: SpoolID, _ turn: inout Turn) {
    entries[id] = nil
    turn.actions.append(.forget(id))
  }

  /// The entries in the order in which they came.
  var inOrder: [KeptCredential] { entries.values.sorted { $0.order < $1.order } }

  /// What the wanted credentials take of the room that there is, in bytes.
  var bytes: Int { entries.values.reduce(0) { $0 + ($1.status == .unwanted ? 0 : $1.size) } }

  /// How many credentials are kept, and how many files are still to be erased.
  var kept: (waiting: Int, erasing: Int) {
    let erasing = entries.values.count { $0.status == .unwanted }
    return (entries.count - erasing, erasing)
  }

  /// When the asker that waits for the shortest time is to be answered.
  var answersDue: Instant? { (entries.values.flatMap(\.askers) + idleAskers).map(\.until).min() }
}

extension StoreError {
  /// A credential does not fit beside those that are kept.
  static func noRoom(_ bytes: Int) -> StoreError {
    StoreError(
      .spoolFull,
      "The credentials that wait to be judged and taken may have \(bytes) bytes together, and one more would not fit.")
  }
}
