import Common
import Journal
import Loop
import Store
import Transfers

/// Where received credentials wait to be judged and taken: in memory, and in an encrypted spool where there is one, so that
/// a restart does not lose what a wallet was told is received.
///
/// One thing at a time is done on the disk, away from the loop. What a disk refuses is tried again, and one that hangs keeps
/// nobody waiting for longer than `patience`: what cannot be written is kept in memory alone, and `trouble` says so.
///
/// How long credentials have waited is told by the scheduler's clock, which nobody can set. Only over a restart the wall
/// clock has to do, by the dates in the files; where it is set meanwhile, those are set with it.
@LoopActor
public final class CredentialVault {
  public typealias Opening = @Sendable () throws(StoreError) -> CredentialSpool

  public struct Settings: Sendable {
    /// How long a credential waits before it is erased.
    public var keepFor = Duration.seconds(86_400)
    /// What all that wait may take together, as files.
    public var maximumBytes = 64 << 20

    public init(keepFor: Duration = .seconds(86_400), maximumBytes: Int = 64 << 20) {
      self.keepFor = keepFor
      self.maximumBytes = maximumBytes
    }
  }

  public var settings: Settings {
    didSet { schedule() }
  }

  /// Nobody waits for the disk for longer.
  public nonisolated static let patience = Duration.seconds(5)
  /// What the disk refused is tried again after this time.
  nonisolated static let retryInterval = Duration.seconds(60)

  let scheduler: any Scheduler
  let disk: any Offloading
  let clock: any WallClock
  let open: Opening?
  weak var list: TransferList?
  private var onRestored: @LoopActor (Transfer) -> Void = { _ in }
  private var onChange: @LoopActor () -> Void = {}

  var spool: CredentialSpool?
  /// By the numbers of their transfers; those to be erased are in it until they are.
  var entries: [Int: KeptCredential] = [:]
  var troubles: [Trouble: StoreError] = [:]
  /// Ends the wait for what is being done on the disk; nil when nothing is.
  var busy: Registration?
  /// What is being done on the disk takes longer than anybody has patience.
  var isStalled = false
  var onRest: [@LoopActor () -> Void] = []
  /// There are files that are not here as transfers.
  var hasFilesApart = false
  /// Those of them for which there was no room.
  var left = 0
  var lookAt = Instant.zero
  var inspectAt = Instant.zero
  var redated = 0
  private var clockWatch: Registration?
  lazy var look = Deadline(scheduler) { [weak self] in self?.lookThrough() }

  /// - Parameters:
  ///   - disk: where `open`, and all that is done with the spool, is done; nil for the scheduler.
  ///   - open: opens the spool, at the first need and again after a failure; nil keeps credentials in memory alone.
  public init(
    _ settings: Settings = .init(), scheduler: any Scheduler, disk: (any Offloading)? = nil,
    clock: any WallClock = SystemWallClock(), open: Opening? = nil
  ) {
    self.settings = settings
    self.scheduler = scheduler
    self.disk = disk ?? scheduler
    self.clock = clock
    self.open = open
    guard open != nil else { return }
    clockWatch = clock.onSet { [weak self] in self?.clockWasSet() }
  }

  // MARK: For the service

  /// Names the list that credentials of an earlier run are put on.
  ///
  /// - Parameters:
  ///   - changed: called when `trouble` has changed.
  ///   - restored: called for each that is restored and that nobody has judged.
  func attach(
    _ list: TransferList, changed: @escaping @LoopActor () -> Void,
    restored: @escaping @LoopActor (Transfer) -> Void
  ) {
    self.list = list
    onChange = changed
    onRestored = restored
  }

  /// Puts a credential away.
  ///
  /// - Parameter then: called on the loop when it is in safe hands, or with the reason why it cannot be taken: there is no
  ///   room. A disk that fails or hangs is no reason: the credential is then kept in memory.
  func put(_ credential: [UInt8], of transfer: Transfer, then: @escaping @LoopActor (StoreError?) -> Void) {
    let size = CredentialSpool.size(of: entry(credential, of: transfer, date: 0))
    guard size <= settings.maximumBytes - bytes else { return then(.full(settings.maximumBytes)) }
    let new = KeptCredential(transfer, size: size, date: clock.seconds, received: scheduler.now)
    new.content = credential
    entries[transfer.number] = new
    ask(new, then)
  }

  /// Notes that a credential is accepted; it is kept until it is taken.
  ///
  /// - Parameter then: called when that would survive a loss of power, or the disk is in trouble.
  func accept(_ transfer: Transfer, then: @escaping @LoopActor () -> Void = {}) {
    guard let entry = entries[transfer.number] else { return then() }
    wish(.taken, of: entry)
    ask(entry) { _ in then() }
  }

  /// Erases a credential: nobody wants it any more, or its wallet never heard of its success.
  ///
  /// - Parameter then: called when it would not come back after a loss of power, or the disk is in trouble.
  func remove(_ transfer: Transfer, then: @escaping @LoopActor () -> Void = {}) {
    guard let entry = entries[transfer.number] else { return then() }
    entry.content = nil
    wish(.nobody, of: entry)
    if entry.step == nil { entries[transfer.number] = nil }
    ask(entry) { _ in then() }
  }

  private func wish(_ wish: KeptCredential.Wish, of entry: KeptCredential) {
    entry.wish = wish
    entry.failure = nil
    // Whoever waited for something else has it, as far as that still matters.
    entry.answer()
  }

  /// Does what has to be done for an entry, and says so in time.
  private func ask(_ entry: KeptCredential, _ then: @escaping @LoopActor (StoreError?) -> Void) {
    let isDone = entry.step == nil || open == nil
    if isDone || isStalled {
      pump()
      return then(nil)
    }
    let timer = scheduler.schedule(after: Self.patience) { [weak self, weak entry] in
      self?.stall()
      entry?.answer()
    }
    entry.askers.append((timer, then))
    pump()
  }

  /// The credentials of an earlier run, as transfers that wait for their verdict, or to be taken. This waits for the disk.
  func restore() {
    guard let open, spool == nil, busy == nil else { return }
    adopt(Self.opened(open, settings, now: knownDate))
    pump()
  }

  /// Calls `then` when there is nothing more to be done on the disk but what it refused, after `limit` at the latest.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    let once = Once(then)
    once.timer = scheduler.schedule(after: limit) { once.call() }
    onRest.append { once.call() }
    pump()
  }

  // MARK: What there is

  /// What those that wait take of the room.
  var bytes: Int { entries.values.reduce(0) { $0 + ($1.wish == .nobody ? 0 : $1.size) } }

  func entry(_ credential: [UInt8], of transfer: Transfer, date: Int64) -> SpoolEntry {
    SpoolEntry(
      received: date, dialect: transfer.dialect, peer: transfer.peer?.description ?? "", credential: credential)
  }

  func restored(_ transfer: Transfer) { onRestored(transfer) }

  func changed() { onChange() }
}

extension CredentialVault {
  /// How many wait, and how many files are still to be erased.
  var kept: (waiting: Int, erasing: Int) {
    let erasing = entries.values.count { $0.wish == .nobody }
    return (entries.count - erasing, erasing)
  }
}

/// A call that is made once, by whoever comes first.
@LoopActor
private final class Once {
  var timer: Registration?
  private var body: (@LoopActor () -> Void)?

  init(_ body: @escaping @LoopActor () -> Void) { self.body = body }

  func call() {
    let body = body
    self.body = nil
    timer = nil
    body?()
  }
}
