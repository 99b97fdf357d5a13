import Bitchat
import Bytes
import Common
import Crypto
import Loop
import Store

/// Persistent store of the mesh's node: identity, pins, marks of peers, messages, outgoing messages, and public
/// packets.
///
/// Data on disk is sealed; only times and sizes are visible. Disk operations run outside of the loop: one commit at a
/// time, and later changes are part of the next one. Failed writes are retried until they succeed or the process ends,
/// and `trouble` reports them.
@LoopActor
public final class NodeStore {
  /// Limits on what the mesh store stores, and for how long.
  public struct Settings: Hashable, Sendable {
    /// Lifetime of public messages and packets; zero if they are never written to disk.
    public var archive = Duration.seconds(6 * 3600)
    /// Maximum bytes of all received files.
    public var fileBytes = 64 << 20
    /// Time after which a received file is removed.
    public var filesFor = Duration.seconds(7 * 24 * 3600)

    public init(archive: Duration = .seconds(6 * 3600)) {
      self.archive = archive
    }
  }

  /// State after a wipe: a new identity without data.
  public struct Wiped: Sendable {
    public var kept: StoredNode
    /// False if the key is one of systemd's credentials, which this service cannot destroy.
    public var isKeyDestroyed: Bool
    /// Steps that an administrator must take; nil if none.
    public var advice: String?
  }

  enum State { case closed, opening, open, wiping }

  /// Time after which a running commit counts as hanging.
  static let patience = Duration.seconds(10)
  static let firstPause = Duration.seconds(1)
  static let longestPause = Duration.seconds(60)
  /// Time from the beginning of one commit to the next, if no change is urgent.
  static let grouping = Duration.milliseconds(500)

  public var settings: Settings {
    didSet {
      guard settings != oldValue, state == .open else { return }
      carryOut(ledger.keepArchive(for: settings.archive))
      carryOut(ledger.keepFiles(bytes: bounded.fileBytes, for: settings.filesFor))
      commit()
    }
  }
  /// Settings with a lower limit on files if there is no disk.
  private var bounded: Settings {
    var bounded = settings
    if disk is NoDisk { bounded.fileBytes = min(bounded.fileBytes, Self.bytesInMemory) }
    return bounded
  }
  /// Problem of the store, in a sentence; nil if there is none.
  public var trouble: String? { error?.sentence }
  public internal(set) var error: StoreError? {
    didSet { if error != oldValue { onChange() } }
  }
  /// Called when `trouble` has changed.
  public var onChange: @LoopActor () -> Void = {}
  /// Called with the numbers of messages that exceeded a limit or expired.
  public var onRemoved: @LoopActor ([UInt32]) -> Void = { _ in }
  /// Called with the numbers of files that exceeded a limit or expired.
  public var onFilesRemoved: @LoopActor ([UInt32]) -> Void = { _ in }

  let scheduler: any Scheduler
  let worker: any Offloading
  let disk: any MeshDisk
  let clock: any WallClock
  private let random: any RandomSource & Sendable

  var state = State.closed
  var ledger: RecordIndex
  /// Writes that wait for the next commit.
  var pending = MeshWrites()
  /// Callers whose changes are in the next commit, and that are answered after it.
  var waiting: [@LoopActor (StoreError?) -> Void] = []
  /// Writes of the running commit, and callers that wait for it.
  var underWay: (writes: MeshWrites, waiting: [@LoopActor (StoreError?) -> Void])?
  /// Whether the running commit takes longer than its limit.
  var isStalled = false
  /// Number of file operations that have timed out and may still end.
  var hanging = 0
  /// Number that changes when the running operations become void. An operation that ends with an old number is
  /// ignored.
  var generation = 0
  /// Pauses, growing with each failure, before a failed commit is tried again.
  private var backoff = Backoff(from: NodeStore.firstPause, upTo: NodeStore.longestPause)
  private let idlers = IdleWaiters()
  lazy var stall = Deadline(scheduler) { [weak self] in self?.diskHangs() }
  lazy var retry = Deadline(scheduler) { [weak self] in self?.commit() }
  /// Time at which the last commit began; nil before the first one.
  var committedAt: Instant?
  /// Whether a waiting change is urgent, so that the commit begins without a pause.
  var hasUrgent = false
  lazy var group = Deadline(scheduler) { [weak self] in self?.commit() }

  /// - Parameters:
  ///   - directory: state directory; nil means `$STATE_DIRECTORY`, and without that, memory only.
  ///   - disk: worker for disk operations: one at a time, in order.
  public convenience init(
    directory: String?, settings: Settings = Settings(), scheduler: any Scheduler, disk: any Offloading,
    clock: any WallClock = SystemWallClock()
  ) {
    let path = StateDirectory.path(directory) ?? ""
    self.init(
      path.isEmpty ? NoDisk() : MeshFiles(path: path), settings: settings, scheduler: scheduler, worker: disk,
      clock: clock)
  }

  init(
    _ disk: any MeshDisk, settings: Settings = Settings(), scheduler: any Scheduler, worker: any Offloading,
    clock: any WallClock, random: any RandomSource & Sendable = SystemRandom()
  ) {
    self.disk = disk
    self.settings = settings
    self.scheduler = scheduler
    self.worker = worker
    self.clock = clock
    self.random = random
    ledger = RecordIndex(settings)
  }

  /// Milliseconds since 1970, by a clock that may be wrong.
  var time: UInt64 { UInt64(max(0, clock.seconds)) &* 1000 }

  // MARK: Opening

  /// Reads the data of earlier runs. It may be called again after a failure.
  ///
  /// - Parameter then: gets the data, or the reason of a failure; `trouble` is then set.
  public func open(then: @escaping @LoopActor (Result<StoredNode, StoreError>) -> Void) {
    guard state == .closed else { return refuse { then(.failure($0)) } }
    state = .opening
    stall.set(scheduler.now.advanced(by: Self.patience))
    run(
      { [disk] (load) throws(StoreError) in try load(disk, WipeSurvivors()) },
      then: { keeper, loading in keeper.opened(loading.map(\.kept), loading, then) })
  }

  /// Destroys all data: the key first, then the files and waiting writes. After a loss of power, the next start
  /// completes the wipe. Until the new state is ready, `keep` is rejected.
  ///
  /// - Parameters:
  ///   - survivors: data that survives the wipe.
  ///   - then: gets the new state, or the reason why something could not be destroyed; then `open` tries again.
  public func wipe(
    keeping survivors: WipeSurvivors = WipeSurvivors(), then: @escaping @LoopActor (Result<Wiped, StoreError>) -> Void
  ) {
    guard state == .open || state == .closed else { return refuse { then(.failure($0)) } }
    state = .wiping
    generation += 1
    let refused = (underWay?.waiting ?? []) + waiting
    (pending, waiting, underWay, isStalled) = (MeshWrites(), [], nil, false)
    backoff.reset()
    ledger = RecordIndex(bounded)
    retry.set(nil)
    group.set(nil)
    (committedAt, hasUrgent) = (nil, false)
    stall.set(scheduler.now.advanced(by: Self.patience))
    for waiter in refused { waiter(StoreError(.failed, "The mesh store is being wiped.")) }
    run(
      { [disk] (load) throws(StoreError) in
        let isKeyDestroyed = try disk.wipe(keeping: survivors.highestNumber)
        return (isKeyDestroyed, try load(disk, survivors))
      },
      then: { keeper, result in
        let wiped = result.map { (isKeyDestroyed: Bool, loading: MeshLoading) in
          Wiped(
            kept: loading.kept, isKeyDestroyed: isKeyDestroyed, advice: isKeyDestroyed ? nil : Self.advice)
        }
        keeper.opened(wiped, result.map(\.1), then)
      })
  }

  private static let advice =
    "The wipe did not destroy the key, which is the systemd credential \(MeshFiles.key.credential). Give the unit "
    + "another one."

  private typealias Load = @Sendable (any MeshDisk, WipeSurvivors) throws(StoreError) -> MeshLoading

  /// Runs `work` on the disk, outside of the loop.
  private func run<Value: Sendable>(
    _ work: @escaping @Sendable (Load) throws(StoreError) -> Value,
    then: @escaping @LoopActor (NodeStore, Result<Value, StoreError>) -> Void
  ) {
    let load: Load = { [bounded, time, random] (disk, survivors) throws(StoreError) in
      var random = random
      return try MeshLoading(from: disk, settings: bounded, keeping: survivors, at: time, random: &random)
    }
    let attempt: @Sendable () -> Result<Value, StoreError> = {
      do throws(StoreError) { return .success(try work(load)) } catch { return .failure(error) }
    }
    worker.offload(attempt) { [weak self] result in
      if let self { then(self, result) }
    }
  }

  private func opened<Value>(
    _ value: Result<Value, StoreError>, _ loading: Result<MeshLoading, StoreError>,
    _ then: @LoopActor (Result<Value, StoreError>) -> Void
  ) {
    stall.set(nil)
    isStalled = false
    switch loading {
    case .success(let loading):
      state = .open
      error = nil
      ledger = loading.ledger
      pending = loading.writes
      // The settings may have changed meanwhile.
      pending.add(ledger.keepArchive(for: settings.archive))
      pending.add(ledger.keepFiles(bytes: bounded.fileBytes, for: settings.filesFor))
    case .failure(let failure):
      state = .closed
      error = failure
    }
    then(value)
    commit()
    tellIdlers()
  }

  /// Reports asynchronously why a call is not possible in the current state.
  func refuse(_ body: @escaping @LoopActor (StoreError) -> Void) {
    let sentence: String =
      switch state {
      case .closed: "The mesh store is not open."
      case .opening: "The mesh store is still being read."
      case .open: "The mesh store is already open."
      case .wiping: "The mesh store is being wiped."
      }
    scheduler.soon { body(StoreError(.failed, sentence)) }
  }
}

/// Writing during the run of the node.
extension NodeStore {
  /// Stores changes, all in one commit.
  ///
  /// A change that cannot be encoded, because a text is too long, is skipped, and the reason is `tooLarge`. After a
  /// storage error, changes are retried; nothing is lost while the process runs.
  ///
  /// - Parameters:
  ///   - isUrgent: whether a commit begins as soon as none is running. Other changes wait until half a second after the
  ///     start of the last commit, so that small changes share one. A commit for each would write a hundred times their
  ///     size.
  ///   - then: called when these and all earlier changes are durable, or with the reason of a failure.
  public func keep(
    _ changes: [MeshChange], isUrgent: Bool = true, then: @escaping @LoopActor (StoreError?) -> Void = { _ in }
  ) {
    guard state == .open else { return refuse(then) }
    var refusal: StoreError?
    var writes = MeshWrites()
    for change in changes {
      do throws(WireError) {
        writes.add(try ledger.apply(change, at: time))
      } catch {
        refusal = refusal ?? StoreError(.tooLarge, "A record of the mesh cannot be stored: \(error).")
      }
    }
    carryOut(writes)
    let answer: @LoopActor (StoreError?) -> Void = if let refusal { { then($0 ?? refusal) } } else { then }
    if isStalled {
      scheduler.soon { answer(Self.stalled) }
    } else if pending.isEmpty, underWay == nil {
      scheduler.soon { answer(nil) }
    } else {
      waiting.append(answer)
    }
    commit(isUrgent: isUrgent)
  }

  /// Removes expired items. Public messages and packets expire after `Settings.archive`, outgoing messages after a day,
  /// private messages after 30 days. Call it regularly, and only while the clock is trusted.
  ///
  /// - Parameter time: milliseconds since 1970.
  public func age(at time: UInt64) {
    guard state == .open else { return }
    carryOut(ledger.age(at: time))
    commit()
  }

  /// Removes the hashes of the packets that earlier wipes erased.
  public func forgetErased() {
    guard state == .open else { return }
    carryOut(ledger.forgetErased())
    commit()
  }

  /// Calls `then` when nothing is running or waiting, except failed changes, or after `limit`.
  public func whenIdle(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    commit()
    idlers.add(within: limit, on: scheduler, then)
    scheduler.soon { [weak self] in self?.tellIdlers() }
  }

  // MARK: Commits

  func carryOut(_ writes: MeshWrites) {
    pending.add(writes)
    (pending.removedMessages, pending.removedFiles) = ([], [])
    if !writes.removedFiles.isEmpty { onFilesRemoved(writes.removedFiles) }
    if !writes.removedMessages.isEmpty { onRemoved(writes.removedMessages) }
  }

  /// Commits all waiting changes. It does nothing while a commit is running, or while only changes that are not urgent
  /// wait and the last commit began less than half a second ago.
  ///
  /// - Parameter isUrgent: whether a new change is urgent.
  func commit(isUrgent: Bool = true) {
    guard state == .open, !pending.isEmpty else { return }
    hasUrgent = hasUrgent || isUrgent
    guard underWay == nil else { return }
    let earliest = committedAt?.advanced(by: Self.grouping)
    if let earliest, !hasUrgent, scheduler.now < earliest { return group.set(earliest) }
    (committedAt, hasUrgent) = (scheduler.now, false)
    group.set(nil)
    retry.set(nil)
    let writes = pending
    underWay = (writes, waiting)
    (pending, waiting) = (MeshWrites(), [])
    stall.set(scheduler.now.advanced(by: Self.patience))
    let attempt: @Sendable () -> StoreError? = { [disk] in
      do throws(StoreError) {
        try disk.commit(writes)
        return nil
      } catch {
        return error
      }
    }
    worker.offload(attempt) { [weak self, generation] failure in
      guard let self, generation == self.generation else { return }
      self.committed(failure)
    }
  }

  private func committed(_ failure: StoreError?) {
    guard let done = underWay else { return }
    underWay = nil
    isStalled = false
    stall.set(nil)
    error = failure
    if failure == nil {
      backoff.reset()
    } else {
      // Newer changes replace older ones.
      var again = done.writes
      again.add(pending)
      pending = again
      let pause = backoff.next()
      // Changes that arrived meanwhile get an attempt of their own immediately.
      if waiting.isEmpty { retry.set(scheduler.now.advanced(by: pause)) }
    }
    for waiter in done.waiting { waiter(failure) }
    // Changes without writes arrived during the commit: all changes before them are durable now.
    if failure == nil, pending.isEmpty {
      let told = waiting
      waiting = []
      for waiter in told { waiter(nil) }
    }
    if failure == nil || !waiting.isEmpty { commit(isUrgent: failure != nil) }
    tellIdlers()
  }

  // MARK: Stalled disk

  static let stalled = StoreError(
    .diskStalled, "The disk does not answer. Check the kernel log; writes of the mesh store wait for the disk.")

  func diskHangs() {
    isStalled = true
    error = Self.stalled
    let told = (underWay?.waiting ?? []) + waiting
    underWay?.waiting = []
    waiting = []
    for waiter in told { waiter(Self.stalled) }
  }

  func tellIdlers() {
    let isBusy = underWay != nil || state == .opening || state == .wiping || !pending.isEmpty && backoff.isFresh
    if !isBusy { idlers.callAll() }
  }
}

/// Storing, reading and erasing the contents of received files.
extension NodeStore {
  /// Maximum bytes of all files without a disk.
  static let bytesInMemory = 8 << 20

  /// Stores a file.
  ///
  /// - Parameter then: called when content and metadata are durable, or with the reason of a failure; then nothing of
  ///   the file is stored. The reason is `tooLarge` if there is no capacity for it, independent of the disk.
  public func keep(_ file: MeshFile, content: [UInt8], then: @escaping @LoopActor (StoreError?) -> Void) {
    guard state == .open else { return refuse(then) }
    guard content.count <= ledger.fileBytes else {
      return scheduler.soon { then(StoreError(.tooLarge, "The file is larger than FileStore= of [Mesh].")) }
    }
    let write: @Sendable () -> StoreError? = { [disk] in
      do throws(StoreError) {
        try disk.write(content, to: file.place)
        return nil
      } catch {
        return error
      }
    }
    let patience = patience(then: {})
    worker.offload(write) { [weak self, generation] failure in
      self?.answered(patience)
      guard let self, generation == self.generation else {
        return then(StoreError(.failed, "The mesh store is being wiped."))
      }
      if let failure {
        error = failure
        return then(failure)
      }
      keep([.file(file)]) { [weak self] failure in
        guard let self else { return }
        if let failure { discard(file, failure) }
        then(failure ?? (ledger.has(.file(file.number), on: .files) ? nil : Self.full))
      }
    }
  }

  /// Error for a file that does not fit, because the stored files take precedence over it.
  private static let full = StoreError(
    .tooLarge,
    "FileStore= of [Mesh] is full of files that take precedence over this one.")

  /// Removes a file that was not stored completely, so that it is not restored at the next start.
  private func discard(_ file: MeshFile, _ failure: StoreError) {
    guard state == .open else { return }
    carryOut(ledger.discard(file))
    commit()
    // If commits fail for long while files are retried, their contents could fill the disk. A hanging commit may still
    // succeed, and its row refers to the content then.
    if failure.reason != .diskStalled { worker.offload({ [disk] in disk.erase(file.place) }, then: { _ in }) }
  }

  /// Reads the content of a stored file.
  ///
  /// - Parameter then: called once; with `diskStalled` if the disk takes too long.
  public func content(
    of file: MeshFile, then: @escaping @LoopActor (Result<[UInt8], StoreError>) -> Void
  ) {
    guard state == .open else { return refuse { then(.failure($0)) } }
    // A new request would wait behind the hanging one.
    guard hanging == 0 else { return scheduler.soon { then(.failure(Self.stalled)) } }
    let read: @Sendable () -> Result<[UInt8], StoreError> = { [disk] in
      do throws(StoreError) { return .success(try disk.read(file.place)) } catch { return .failure(error) }
    }
    let patience = patience { then(.failure(Self.stalled)) }
    worker.offload(read) { [weak self] result in
      let isInTime = !patience.isOver
      self?.answered(patience)
      if isInTime { then(result) }
    }
  }

  /// Starts the timeout of a disk operation, after which the disk counts as hanging.
  private func patience(then: @escaping @LoopActor () -> Void) -> Patience {
    let patience = Patience()
    patience.timer = scheduler.schedule(after: Self.patience) { [weak self, weak patience] in
      guard let self, let patience else { return }
      patience.isOver = true
      hanging += 1
      error = Self.stalled
      then()
    }
    return patience
  }

  private func answered(_ patience: Patience) {
    patience.timer = nil
    guard patience.isOver else { return }
    hanging -= 1
    if hanging == 0, !isStalled, error == Self.stalled { error = nil }
  }

  /// Time limit of one disk operation, after which its caller is answered.
  @LoopActor
  private final class Patience {
    var timer: Registration?
    var isOver = false
  }
}
