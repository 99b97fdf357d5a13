import Common
import Journal
import Loop
import Store
import Transfers

/// The durable history of ended transfers. It is written off the loop, in the order of the results.
///
/// While the disk fails, entries wait in memory. A crash then loses them, which `trouble` reports.
@LoopActor
public final class TransferHistoryStore {
  /// Result of reading: pages of entries with their IDs, newest first.
  public typealias Page = Result<[(id: Int64, entry: HistoryEntry)], StoreError>

  /// Maximum entries that wait for the disk; beyond it the oldest is dropped and counted.
  static let waitingLimit = 1000
  /// Maximum number of entries that one read returns.
  public nonisolated static let pageLimit = 1000
  /// Maximum reads that wait for the disk. Credentials are stored on the same disk, and must not wait behind a thousand
  /// reads of many programs.
  static let readLimit = 8
  /// Maximum time that a read waits for writes.
  private static let readPatience = Duration.seconds(2)
  /// Interval in which entries that have become too old are removed.
  private static let pruneInterval = Duration.seconds(3600)

  /// Time for which entries are stored; zero stores none.
  public var keepFor: Duration {
    didSet { if keepFor != oldValue { prune() } }
  }
  /// Number of entries that were dropped while the disk failed.
  private(set) var lost: UInt64 = 0
  /// The present error of the disk; nil if the last operation succeeded.
  private(set) var trouble: StoreError?

  private let path: String?
  private let scheduler: any Scheduler
  private let disk: any Offloading
  private let clock: any WallClock
  private let file = Locked<HistoryFile?>(nil)
  private var waiting: [HistoryEntry] = []
  private var isWriting = false
  /// Number of reads that wait for the disk.
  private var reading = 0
  /// Whether old entries must be removed even if no entry is added.
  private var isPruneDue = false
  /// Numbers of the listed transfers whose results are recorded already.
  private var recorded: Set<Int> = []
  private var backoff = Backoff()
  private let idlers = IdleWaiters()
  /// The time of the next attempt after a failed write. Until then nothing is written.
  private lazy var retry = Deadline(scheduler) { [weak self] in self?.write() }
  private lazy var pruning = Deadline(scheduler) { [weak self] in self?.prune() }

  /// - Parameters:
  ///   - directory: the state directory; nil means `$STATE_DIRECTORY`. Without one there is no history.
  ///   - disk: runs disk operations one at a time, in order.
  public init(
    directory: String?, keepFor: Duration, scheduler: any Scheduler, disk: (any Offloading)? = nil,
    clock: any WallClock = SystemWallClock()
  ) {
    let path = StateDirectory.path(directory) ?? ""
    self.path = path.isEmpty ? nil : path
    self.keepFor = keepFor
    self.scheduler = scheduler
    self.disk = disk ?? scheduler
    self.clock = clock
  }

  /// Whether another read may wait for the disk.
  var mayRead: Bool { reading < Self.readLimit }

  /// Whether results are recorded: there is a state directory, and `HistoryFor=` is not 0s.
  public var isOn: Bool { path != nil && keepFor > .zero }

  /// Removes entries that became too old while the service did not run, and from then on every hour.
  func begin() { prune() }

  /// Records the result of a transfer, once. Has no effect for one that has no result yet, or had it in an earlier run.
  func note(_ transfer: Transfer) {
    guard isOn, transfer.state.isEnd, !transfer.wasDecidedEarlier, recorded.insert(transfer.number).inserted,
      let entry = HistoryEntry(transfer, at: clock.milliseconds)
    else { return }
    waiting.append(entry)
    limitWaiting()
    write()
  }

  /// Forgets a transfer that is no longer listed.
  func forget(_ number: Int) { recorded.remove(number) }

  /// Reads a page of entries, after the writes that are due have ended; at the latest after `readPatience`.
  ///
  /// - Parameters:
  ///   - id: an ID of an earlier page; nil for the newest entries.
  ///   - limit: maximum entries, at most `pageLimit`.
  public func read(before id: Int64?, limit: Int, then: @escaping @LoopActor (Page) -> Void) {
    guard path != nil, keepFor > .zero else {
      let error = StoreError(.missing, "There is no history, because of HistoryFor=0s or without a state directory.")
      return scheduler.soon { then(.failure(error)) }
    }
    let limit = max(0, min(limit, Self.pageLimit))
    reading += 1
    whenIdle(within: Self.readPatience) { [weak self] in self?.readFile(before: id, limit, then) }
  }

  private func readFile(before id: Int64?, _ limit: Int, _ then: @escaping @LoopActor (Page) -> Void) {
    guard let path else { return }
    disk.offload(
      { [file] () -> Page in
        do throws(StoreError) {
          return .success(try Self.opened(path, file).file.entries(before: id, limit: limit))
        } catch {
          return .failure(error)
        }
      },
      then: { [weak self] page in
        self?.reading -= 1
        then(page)
      })
  }

  /// Calls `then` once, when no write is due, or after `limit`.
  func whenIdle(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    if isWriting { idlers.add(within: limit, on: scheduler, then) } else { then() }
  }

  /// Writes at the stop of the service: entries that wait for the next attempt are written once, without the pause.
  ///
  /// - Parameter then: called once, when that write has ended or no write is due, or after `limit`.
  func writeLast(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    let end = scheduler.now.advanced(by: limit)
    whenIdle(within: limit) { [weak self] in
      guard let self, retry.isSet else { return then() }
      retry.set(nil)
      write()
      whenIdle(within: max(.zero, scheduler.now.duration(to: end)), then: then)
    }
  }

  // MARK: The disk

  private func prune() {
    // Without a state directory there is nothing to remove.
    guard path != nil else { return }
    pruning.set(scheduler.now.advanced(by: Self.pruneInterval))
    isPruneDue = true
    write()
  }

  private func write() {
    guard let path, !isWriting, !retry.isSet, !waiting.isEmpty || isPruneDue else { return }
    let entries = waiting
    let oldest = keepFor > .zero ? clock.milliseconds - keepFor.wholeMilliseconds : .max
    (waiting, isWriting, isPruneDue) = ([], true, false)
    disk.offload(
      { [file] () -> (error: StoreError?, warning: String?) in
        do throws(StoreError) {
          let (opened, warning) = try Self.opened(path, file)
          try opened.add(entries, removingBefore: oldest)
          return (nil, warning)
        } catch {
          return (error, nil)
        }
      },
      then: { [weak self] result in self?.written(entries, result.error, result.warning) })
  }

  private func written(_ entries: [HistoryEntry], _ error: StoreError?, _ warning: String?) {
    isWriting = false
    if let warning { Log.shared.warning("\(warning)", id: .historyDegraded) }
    if let error {
      if trouble?.reason != error.reason {
        Log.shared.warning("The history is not written. \(error.sentence)", id: .historyDegraded, .error(error))
      }
      trouble = error
      waiting = entries + waiting
      limitWaiting()
      // A write also removes old entries: if it had no entries to add, it is repeated nevertheless.
      isPruneDue = true
      retry.set(scheduler.now.advanced(by: backoff.next()))
    } else {
      if trouble != nil { Log.shared.notice("The history is written again", id: .historyDegraded) }
      (trouble, backoff) = (nil, Backoff())
      write()
    }
    if !isWriting { idlers.callAll() }
  }

  private func limitWaiting() {
    let excess = waiting.count - Self.waitingLimit
    guard excess > 0 else { return }
    lost += UInt64(excess)
    waiting.removeFirst(excess)
  }

  /// Opens the file, in a folder that is locked while the service runs.
  private nonisolated static func opened(
    _ path: String, _ file: Locked<HistoryFile?>
  ) throws(StoreError) -> (file: HistoryFile, warning: String?) {
    if let file = file.withLock({ $0 }) { return (file, nil) }
    var warning: String?
    let opened = try HistoryFile(in: path, &warning)
    file.withLock { $0 = opened }
    return (opened, warning)
  }
}
