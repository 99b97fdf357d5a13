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
public final class MeshKeeper {
  /// Settings of the store.
  public struct Settings: Hashable, Sendable {
    /// Lifetime of public messages and packets; zero if they are never written to disk.
    public var archive = Duration.seconds(6 * 3600)
    /// Maximum bytes of all received files.
    public var fileBytes = 64 << 20
    /// Lifetime of received files.
    public var filesFor = Duration.seconds(7 * 24 * 3600)

    public init(archive: Duration = .seconds(6 * 3600)) {
      self.archive = archive
    }
  }

  /// State after a wipe: a new identity without data.
  public struct Wiped: Sendable {
    public var kept: KeptMesh
    /// False if the key is one of systemd's credentials, which this service cannot destroy.
    public var isKeyDestroyed: Bool
    /// Steps that an administrator must take; nil if none.
    public var advice: String?
  }

  enum State { case closed, opening, open, wiping }

  /// Time of a commit after which the disk counts as hanging.
  static let patience = Duration.seconds(10)
  static let firstPause = Duration.seconds(1)
  static let longestPause = Duration.seconds(60)
  /// Time between two commits without urgent changes.
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
  var ledger: MeshLedger
  /// Writes of the next commit.
  var pending = MeshWrites()
  /// Callers that wait for the next commit.
  var waiting: [@LoopActor (StoreError?) -> Void] = []
  /// Writes of the running commit, and callers that wait for it.
  var underWay: (writes: MeshWrites, waiting: [@LoopActor (StoreError?) -> Void])?
  /// Whether the running commit takes too long.
  var isStalled = false
  /// Number of file operations that have timed out and may still end.
  var hanging = 0
  /// Incremented when running operations become void.
  var generation = 0
  var pause: Duration?
  var idlers: [Int: @LoopActor () -> Void] = [:]
  var lastIdler = 0
  lazy var stall = Deadline(scheduler) { [weak self] in self?.diskHangs() }
  lazy var retry = Deadline(scheduler) { [weak self] in self?.commit() }
  /// Start of the last commit.
  var committedAt: Instant?
  /// Whether a waiting change is urgent.
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
    ledger = MeshLedger(settings)
  }

  /// Milliseconds since 1970, by a clock that may be wrong.
  var time: UInt64 { UInt64(max(0, clock.seconds)) &* 1000 }

  // MARK: Opening

  /// Reads the data of earlier runs. It may be called again after a failure.
  ///
  /// - Parameter then: gets the data, or the reason of a failure; `trouble` is then set.
  public func open(then: @escaping @LoopActor (Result<KeptMesh, StoreError>) -> Void) {
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
    (pending, waiting, underWay, isStalled, pause) = (MeshWrites(), [], nil, false, nil)
    ledger = MeshLedger(bounded)
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
    then: @escaping @LoopActor (MeshKeeper, Result<Value, StoreError>) -> Void
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
