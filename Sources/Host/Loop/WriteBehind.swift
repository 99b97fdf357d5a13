import Common

/// A queue in front of a store of one value. Its operations run off the loop, one at a time. If several writes wait,
/// only the last value is written.
@LoopActor
public final class WriteBehind<Value: Sendable, Failure: Error> {
  private let disk: any Offloading
  private let store: @Sendable (Value) -> Failure?
  private var operations = 0
  private var waiting: (value: Value, waiters: [@LoopActor (Failure?) -> Void])?
  private let idlers = IdleWaiters()

  private var isBusy: Bool { operations > 0 }

  /// - Parameters:
  ///   - disk: runs disk operations one at a time, in order.
  ///   - store: writes a value, and returns the error if it fails.
  public init(_ disk: any Offloading, store: @escaping @Sendable (Value) -> Failure?) {
    (self.disk, self.store) = (disk, store)
  }

  /// - Parameter then: called when the value or a later one is durable, or with the error.
  public func write(_ value: Value, then: @escaping @LoopActor (Failure?) -> Void) {
    waiting = (value, (waiting?.waiters ?? []) + [then])
    next()
  }

  /// Runs another operation of the store, before the write that waits.
  public func run<Outcome: Sendable>(
    _ work: @escaping @Sendable () -> Outcome, then: @escaping @LoopActor (Outcome) -> Void
  ) {
    operations += 1
    disk.offload(work) { [weak self] outcome in
      self?.operations -= 1
      then(outcome)
      self?.next()
    }
  }

  /// Calls `then` once, when no operation is in progress.
  public func whenIdle(then: @escaping @LoopActor () -> Void) {
    if isBusy { idlers.add(then) } else { then() }
  }

  /// Calls `then` once, when no operation is in progress, or after `limit`.
  public func whenIdle(
    within limit: Duration, on scheduler: any Scheduler, then: @escaping @LoopActor () -> Void
  ) {
    if isBusy { idlers.add(within: limit, on: scheduler, then) } else { then() }
  }

  private func next() {
    guard !isBusy else { return }
    guard let (value, waiters) = waiting else { return idlers.callAll() }
    waiting = nil
    run(
      { [store] in store(value) },
      then: { failure in
        for waiter in waiters { waiter(failure) }
      })
  }
}

/// Callbacks of callers that wait until a store has no pending operation.
@LoopActor
public final class IdleWaiters {
  private var waiters: [(number: Int, body: @LoopActor () -> Void)] = []
  private var lastNumber = 0

  public nonisolated init() {}

  public func add(_ body: @escaping @LoopActor () -> Void) {
    lastNumber += 1
    waiters.append((lastNumber, body))
  }

  /// Adds a waiter, whose `body` is called by `callAll`, or after `limit` if `callAll` was not called before.
  public func add(within limit: Duration, on scheduler: any Scheduler, _ body: @escaping @LoopActor () -> Void) {
    let number = lastNumber + 1
    let timer = scheduler.schedule(after: limit) { [weak self] in
      guard let self, let index = waiters.firstIndex(where: { $0.number == number }) else { return }
      waiters.remove(at: index).body()
    }
    add {
      timer.cancel()
      body()
    }
  }

  /// Calls the waiters once, in the order in which they were added.
  public func callAll() {
    let called = waiters
    waiters = []
    for waiter in called { waiter.body() }
  }
}
