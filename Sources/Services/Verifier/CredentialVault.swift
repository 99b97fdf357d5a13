import Common
import Glibc
import Journal
import Loop
import Store
import Transfers

/// Where received credentials wait for their verdict: in memory, and in an encrypted spool where there is one, so that a
/// restart does not lose what a wallet was told is received.
///
/// How long they have waited is told by the scheduler's clock, which nobody can set. Only over a restart the wall clock
/// has to do, by the dates in the files; where it is set meanwhile, those are set with it.
@LoopActor
public final class CredentialVault {
  /// How long a credential waits for a verdict before it is erased.
  public var keepFor: Duration

  private let scheduler: any Scheduler
  private let wallClock: @LoopActor () -> Int64
  private let spool: CredentialSpool?
  /// Why credentials are not kept over a restart; nil when they are.
  public private(set) var trouble: StoreError?
  private var waiting: [Int: Waiting] = [:]
  /// Judged, and refused by the disk: tried again.
  private var erasing: [SpoolID: Registration] = [:]
  private var nextLook = Instant.zero
  private lazy var look = Deadline(scheduler) { [weak self] in self?.lookThrough() }

  private static let eraseAgain = Duration.seconds(60)
  /// How often the wall clock is compared with the dates in the files, while there are any.
  private static let lookInterval = Duration.seconds(60)
  /// Seconds that a date may be wrong.
  private static let dateTolerance: Int64 = 30

  private struct Waiting {
    let transfer: Transfer
    /// Where it is in the spool; nil while it is in memory alone.
    var id: SpoolID?
    /// When it was received, as its file says.
    var date: Int64
    /// When it was received, which may be before the start.
    let received: Instant
    let until: Instant
  }

  /// - Parameters:
  ///   - spool: nil keeps credentials in memory alone.
  ///   - trouble: why there is no spool, for those who ask.
  ///   - wallClock: seconds since 1970, as the machine tells them.
  public init(
    _ spool: CredentialSpool?, trouble: StoreError? = nil, keepFor: Duration = .seconds(86_400),
    scheduler: any Scheduler, wallClock: @escaping @LoopActor () -> Int64 = { Int64(time(nil)) }
  ) {
    self.spool = spool
    self.trouble = trouble
    self.keepFor = keepFor
    self.scheduler = scheduler
    self.wallClock = wallClock
  }

  /// Puts a credential away.
  ///
  /// - Parameter then: called on the loop when it is in safe hands, or with the reason why it cannot be taken: the spool
  ///   is full. A disk that fails is no reason: the credential is then kept in memory.
  func put(_ credential: [UInt8], of transfer: Transfer, then: @escaping @LoopActor (StoreError?) -> Void) {
    let new = Waiting(
      transfer: transfer, date: wallClock(), received: scheduler.now, until: scheduler.now.advanced(by: keepFor))
    store(credential, new) { [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let id):
        keep(new, id)
        if id != nil { mend() }
      case .failure(let error) where error.reason == .spoolFull: return then(error)
      case .failure(let error):
        complain(error)
        keep(new, nil)
      }
      then(nil)
    }
  }

  /// Puts a credential into the spool, where there is one; `then` gets its place there.
  private func store(
    _ credential: [UInt8], _ entry: Waiting, then: @escaping @LoopActor (Result<SpoolID?, StoreError>) -> Void
  ) {
    guard let spool else { return then(.success(nil)) }
    let transfer = entry.transfer
    let entry = SpoolEntry(
      received: entry.date, dialect: transfer.dialect, peer: transfer.peer?.description ?? "", credential: credential)
    let work: @Sendable () -> Result<SpoolID?, StoreError> = {
      Result { () throws(StoreError) -> SpoolID? in try spool.put(entry) }
    }
    scheduler.offload(work, then: then)
  }

  private func keep(_ entry: Waiting, _ id: SpoolID?) {
    var entry = entry
    entry.id = id
    waiting[entry.transfer.number] = entry
    schedule()
  }

  /// Erases a credential: it was judged, or its wallet never heard of its success.
  func remove(_ transfer: Transfer) {
    guard let entry = waiting.removeValue(forKey: transfer.number) else { return }
    schedule()
    if let id = entry.id { erase(id) }
  }

  private func erase(_ id: SpoolID) {
    guard let spool else { return }
    let work: @Sendable () -> Result<Void, StoreError> = {
      Result { () throws(StoreError) in try spool.remove(id) }
    }
    scheduler.offload(
      work,
      then: { [weak self] result in
        guard let self else { return }
        let isNews = erasing.removeValue(forKey: id) == nil
        guard case .failure(let error) = result else { return }
        if isNews {
          Log.shared.error("A judged credential is not erased yet: \(error)", id: .storeDegraded, .error(error))
        }
        erasing[id] = scheduler.schedule(after: Self.eraseAgain) { [weak self] in self?.erase(id) }
      })
  }

  /// The credentials of an earlier run, as transfers that wait for their verdict.
  func restore(into list: TransferList) {
    guard let spool else { return }
    let clock = wallClock()
    let removal = spool.removeAll(olderThan: keepFor, now: clock)
    if !removal.removed.isEmpty {
      Log.shared.warning("\(removal.removed.count) credentials waited too long for a verdict and are erased")
    }
    for problem in removal.problems {
      Log.shared.error("A kept credential is not erased: \(problem.error)", id: .storeDegraded, .error(problem.error))
    }
    let contents: SpoolContents
    do throws(StoreError) {
      contents = try spool.list()
    } catch {
      return complain(error)
    }
    for problem in contents.problems {
      Log.shared.error("A kept credential cannot be read: \(problem.error)", id: .storeDegraded, .error(problem.error))
    }
    for restored in contents.credentials {
      let entry = restored.entry
      let transfer = list.restore(entry.credential, peer: entry.peer, dialect: entry.dialect)
      // One from the future counts from now on, and is given the date of now: else it would never grow old.
      let received = scheduler.now.advanced(by: .zero - entry.age(at: clock))
      keep(
        Waiting(transfer: transfer, date: entry.received, received: received, until: received.advanced(by: keepFor)),
        restored.id)
    }
    followClock()
    guard !contents.credentials.isEmpty else { return }
    Log.shared.notice(
      "\(contents.credentials.count) credentials from before the start are here again", id: .storeRestored)
  }

  // MARK: Time

  private func schedule() {
    if nextLook <= scheduler.now { nextLook = scheduler.now.advanced(by: Self.lookInterval) }
    let first = waiting.values.map(\.until).min()
    let hasDates = waiting.values.contains { $0.id != nil }
    look.set(first.map { hasDates ? min($0, nextLook) : $0 })
  }

  private func lookThrough() {
    expire()
    followClock()
    schedule()
  }

  private func expire() {
    for entry in waiting.values where entry.until <= scheduler.now {
      Log.shared.warning(
        "A credential waited too long for a verdict and is erased", .transfer("\(entry.transfer.number)"))
      entry.transfer.forget()
      remove(entry.transfer)
    }
  }

  /// Gives every file the date that the wall clock, as it goes now, would have had when its credential was received.
  private func followClock() {
    let clock = wallClock()
    var followed = 0
    for (number, entry) in waiting {
      guard let id = entry.id else { continue }
      let date = clock.clampedSubtracting(entry.received.duration(to: scheduler.now).components.seconds)
      guard date.clampedSubtracting(entry.date).magnitude > Self.dateTolerance else { continue }
      waiting[number]?.date = date
      redate(id, of: number, from: entry.date, to: date)
      followed += 1
    }
    if followed > 0 { Log.shared.notice("The wall clock was set: \(followed) kept credentials are dated anew") }
  }

  private func redate(_ id: SpoolID, of number: Int, from old: Int64, to date: Int64) {
    guard let spool else { return }
    let work: @Sendable () -> Result<Void, StoreError> = {
      Result { () throws(StoreError) in try spool.redate(id, received: date) }
    }
    scheduler.offload(
      work,
      then: { [weak self] result in
        guard case .failure(let error) = result else { return }
        // The next look tries again.
        self?.waiting[number]?.date = old
        Log.shared.debug("A kept credential keeps its old date: \(error)", .error(error))
      })
  }

  // MARK: Trouble

  private func complain(_ error: StoreError) {
    // The next one says the same of another file.
    guard trouble?.reason != error.reason else { return }
    trouble = error
    Log.shared.error("Credentials are kept in memory only: \(error)", id: .storeDegraded, .error(error))
  }

  /// The disk is well: what was kept in memory alone meanwhile is put away, too.
  private func mend() {
    guard trouble != nil else { return }
    trouble = nil
    Log.shared.notice("Credentials are kept over a restart again")
    for entry in waiting.values where entry.id == nil { putAway(entry) }
  }

  private func putAway(_ entry: Waiting) {
    guard let credential = entry.transfer.credential else { return }
    store(credential, entry) { [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let id?):
        // Judged, or put away by another attempt, meanwhile.
        guard let kept = waiting[entry.transfer.number], kept.id == nil else { return erase(id) }
        waiting[entry.transfer.number]?.id = id
        schedule()
      case .success(nil): break
      // It stays in memory until there is room.
      case .failure(let error): complain(error)
      }
    }
  }
}

extension CredentialVault {
  /// What it keeps: credentials that wait, and files that are still to be erased.
  var kept: (waiting: Int, erasing: Int) { (waiting.count, erasing.count) }
}

extension Int64 {
  /// The difference, or the nearest there is to it.
  fileprivate func clampedSubtracting(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }
}
