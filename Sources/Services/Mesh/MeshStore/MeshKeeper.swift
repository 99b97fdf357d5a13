import Bitchat
import Bytes
import Common
import Crypto
import Loop
import Store

/// Keeps what outlives a run of the mesh's node: identity, pins, marks of peers, messages, what waits to be sent, and public packets.
///
/// What is kept is sealed on the disk; only its time and its size show. The disk's work leaves the loop: one commit runs at a time, and
/// what comes meanwhile goes into the next one. What the disk refuses is tried again until it is on the disk or the process ends, and
/// `trouble` says so.
@LoopActor
public final class MeshKeeper {
  /// What governs the keeper.
  public struct Settings: Hashable, Sendable {
    /// How long public lines and packets are kept; zero: they never touch the disk.
    public var archive = Duration.seconds(6 * 3600)
    /// The most bytes that received files have together.
    public var fileBytes = 64 << 20
    /// How long received files are kept.
    public var filesFor = Duration.seconds(7 * 24 * 3600)

    public init(archive: Duration = .seconds(6 * 3600)) {
      self.archive = archive
    }
  }

  /// What a wipe has left: nothing, and a new identity.
  public struct Wiped: Sendable {
    public var kept: KeptMesh
    /// False if the key is one of systemd's credentials, which this service cannot destroy.
    public var isKeyDestroyed: Bool
    /// What an administrator has to do besides; nil for nothing.
    public var advice: String?
  }

  enum State { case closed, opening, open, wiping }

  /// So long a commit may take before the disk is said to hang.
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
  /// The settings where memory is the only place: less of it is given to files.
  private var bounded: Settings {
    var bounded = settings
    if disk is NoDisk { bounded.fileBytes = min(bounded.fileBytes, Self.bytesInMemory) }
    return bounded
  }
  /// What is wrong with keeping, in a sentence; nil when nothing is.
  public var trouble: String? { error?.sentence }
  public internal(set) var error: StoreError? {
    didSet { if error != oldValue { onChange() } }
  }
  /// Called when `trouble` has changed.
  public var onChange: @LoopActor () -> Void = {}
  /// Called with the numbers of messages that had to go, because they were too many or too old.
  public var onRemoved: @LoopActor ([UInt32]) -> Void = { _ in }
  /// Called with the numbers of files that had to go, because they were too many or too old.
  public var onFilesRemoved: @LoopActor ([UInt32]) -> Void = { _ in }

  let scheduler: any Scheduler
  let worker: any Offloading
  let disk: any MeshDisk
  let clock: any WallClock
  private let random: any RandomSource & Sendable

  var state = State.closed
  var ledger: MeshLedger
  /// What the next commit writes.
  var pending = MeshWrites()
  /// Who waits for the next commit.
  var waiting: [@LoopActor (StoreError?) -> Void] = []
  /// What is being written, and who waits for that.
  var underWay: (writes: MeshWrites, waiting: [@LoopActor (StoreError?) -> Void])?
  /// Whether the commit that is under way takes too long.
  var isStalled = false
  /// How many contents of files the disk has not read or written in time, and may still.
  var hanging = 0
  /// Raised when what is under way does not count any more.
  var generation = 0
  var pause: Duration?
  var idlers: [Int: @LoopActor () -> Void] = [:]
  var lastIdler = 0
  lazy var stall = Deadline(scheduler) { [weak self] in self?.diskHangs() }
  lazy var retry = Deadline(scheduler) { [weak self] in self?.commit() }
  /// When the last commit began.
  var committedAt: Instant?
  /// Whether a waiting change is urgent.
  var hasUrgent = false
  lazy var group = Deadline(scheduler) { [weak self] in self?.commit() }

  /// - Parameters:
  ///   - directory: the state directory; nil means `$STATE_DIRECTORY`, and if there is none, all is in memory alone.
  ///   - disk: the place for the disk's work: one piece at a time, in order.
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

  /// Milliseconds since 1970, right or wrong.
  var time: UInt64 { UInt64(max(0, clock.seconds)) &* 1000 }

  // MARK: Opening

  /// Reads what earlier runs have kept. After a failure it may be called again.
  ///
  /// - Parameter then: gets what was kept, or why it cannot be read; `trouble` is set then.
  public func open(then: @escaping @LoopActor (Result<KeptMesh, StoreError>) -> Void) {
    guard state == .closed else { return refuse { then(.failure($0)) } }
    state = .opening
    stall.set(scheduler.now.advanced(by: Self.patience))
    run(
      { [disk] (load) throws(StoreError) in try load(disk, WipeSurvivors()) },
      then: { keeper, loading in keeper.opened(loading.map(\.kept), loading, then) })
  }

  /// Destroys all that is kept: the key first, then the files, and what waits to be written. A loss of power on the way changes
  /// nothing: the next start finishes it. Nothing is kept until the new beginning is there; what `keep` gets meanwhile is refused.
  ///
  /// - Parameters:
  ///   - survivors: what outlives the wipe.
  ///   - then: gets the new beginning, or why not everything could be destroyed; then `open` tries again.
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
    for waiter in refused { waiter(StoreError(.failed, "What the mesh keeps is being wiped.")) }
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
    "The key is systemd's credential \(MeshFiles.key.credential), which outlives the wipe: give the unit another one."

  private typealias Load = @Sendable (any MeshDisk, WipeSurvivors) throws(StoreError) -> MeshLoading

  /// Runs `work` on the disk, away from the loop.
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
      // The setting may have changed meanwhile.
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

  /// Says later why a call does not come at a right time.
  func refuse(_ body: @escaping @LoopActor (StoreError) -> Void) {
    let sentence: String =
      switch state {
      case .closed: "What the mesh keeps is not open."
      case .opening: "What the mesh keeps is still being read."
      case .open: "What the mesh keeps is open already."
      case .wiping: "What the mesh keeps is being wiped."
      }
    scheduler.soon { body(StoreError(.failed, sentence)) }
  }
}
