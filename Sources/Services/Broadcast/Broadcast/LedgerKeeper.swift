import Bytes
import Common
import Loop
import Store

/// Keeps what was notified for the next run, in a file of the state directory. The disk's work leaves the loop, one piece after the
/// other; of what is to be written while it is busy the last counts.
@LoopActor
public final class LedgerKeeper {
  /// What an earlier run kept.
  enum Found {
    case nothing
    case kept(KeptLedger)
    /// There is something, and it is not what was written last. What can be read of an earlier one is there.
    case damaged(StoreError, KeptLedger?)
    /// There is no place for it: nothing outlives the run.
    case noDirectory
  }

  private let path: String?
  private let scheduler: any Scheduler
  private let disk: any Offloading
  private let file = Locked<AtomicFile?>(nil)
  private var isBusy = false
  private var waiting: KeptLedger?
  private var waiters: [@LoopActor (StoreError?) -> Void] = []
  private var idlers: [Int: @LoopActor () -> Void] = [:]
  private var lastIdler = 0

  /// - Parameters:
  ///   - directory: the state directory; nil means `$STATE_DIRECTORY`, and if there is none, all is in memory alone.
  ///   - disk: the place for the disk's work: one piece at a time, in order.
  public init(directory: String?, scheduler: any Scheduler, disk: any Offloading) {
    let path = StateDirectory.path(directory) ?? ""
    self.path = path.isEmpty ? nil : path
    self.scheduler = scheduler
    self.disk = disk
  }

  /// Reads what an earlier run kept.
  func open(then: @escaping @LoopActor (Found) -> Void) {
    guard let path else { return then(.noDirectory) }
    run({ [file] in Self.read(path, file) }, then: then)
  }

  /// - Parameter then: called when it survives a loss of power, or with the reason why it does not.
  func write(_ kept: KeptLedger, then: @escaping @LoopActor (StoreError?) -> Void = { _ in }) {
    guard path != nil else { return then(nil) }
    waiting = kept
    waiters.append(then)
    next()
  }

  /// Calls `then` once, when nothing is being written any more, after `limit` at the latest.
  func whenIdle(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    guard isBusy else { return then() }
    lastIdler += 1
    let number = lastIdler
    let timer = scheduler.schedule(after: limit) { [weak self] in self?.idlers.removeValue(forKey: number)?() }
    idlers[number] = {
      timer.cancel()
      then()
    }
  }

  private func next() {
    guard !isBusy, let kept = waiting, let path else { return }
    let waiters = self.waiters
    (waiting, self.waiters) = (nil, [])
    run(
      { [file] in Self.write(kept, path, file) },
      then: { error in
        for waiter in waiters { waiter(error) }
      })
  }

  private func run<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    isBusy = true
    disk.offload(work) { [weak self] value in
      self?.isBusy = false
      then(value)
      guard let self, !isBusy else { return }
      next()
      guard !isBusy else { return }
      let idlers = self.idlers.values
      self.idlers = [:]
      for idler in idlers { idler() }
    }
  }

  // MARK: On the disk

  private nonisolated static func read(_ path: String, _ file: Locked<AtomicFile?>) -> Found {
    do throws(StoreError) {
      let reading = try opened(path, file).read { (_, content) throws(StoreError) in
        do throws(WireError) {
          var reader = ByteReader(content)
          return try KeptLedger(reading: &reader)
        } catch {
          throw StoreError(.damaged, "\(path) is damaged: \(error).")
        }
      }
      guard let reading else { return .nothing }
      return reading.damage.map { .damaged($0, reading.value) } ?? .kept(reading.value)
    } catch {
      return .damaged(error, nil)
    }
  }

  private nonisolated static func write(
    _ kept: KeptLedger, _ path: String, _ file: Locked<AtomicFile?>
  ) -> StoreError? {
    do throws(StoreError) {
      try opened(path, file).write(kept.bytes)
      return nil
    } catch {
      return error
    }
  }

  /// The file, in a folder that is locked for as long as the service runs.
  private nonisolated static func opened(_ path: String, _ file: Locked<AtomicFile?>) throws(StoreError) -> AtomicFile {
    if let file = file.withLock({ $0 }) { return file }
    let directory = try StateDirectory(path: path, folder: "broadcast").directory
    let opened = AtomicFile("notified", in: directory, version: 1, limit: 1024)
    file.withLock { $0 = opened }
    return opened
  }
}
