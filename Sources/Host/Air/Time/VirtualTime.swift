import Common
import Loop

/// Time that advances only when a test advances it: a scheduler for tests and simulations. It starts at `Instant.zero`.
///
/// Events run in the order of their times and, within one instant, in the order in which they were scheduled. Equal
/// programs have equal runs.
@LoopActor
public final class VirtualTime: Scheduler {
  public private(set) var now = Instant.zero
  private var queue = TimedQueue()

  public init() {}

  /// Number of events that are scheduled and not cancelled.
  public var pending: Int { queue.count }

  // MARK: Scheduling

  /// Calls `body` at `instant`, or at the present instant if that is past, while one of the functions below runs
  /// events.
  public func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration {
    let ticket = enter(at: instant, body)
    return Registration { [weak self] in self?.cancel(ticket) }
  }

  /// Calls `body` as an event of the present instant, after those that are already scheduled for it.
  public func soon(_ body: @escaping @LoopActor () -> Void) {
    enter(at: now, body)
  }

  /// Runs `work` immediately, and calls `then` with its result as an event of the present instant.
  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    let value = work()
    soon { then(value) }
  }

  @discardableResult
  func enter(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> TimedQueue.Ticket {
    queue.add(at: max(instant, now), body)
  }

  func cancel(_ ticket: TimedQueue.Ticket) {
    let body = queue.cancel(ticket)
    withExtendedLifetime(body) {}
  }

  // MARK: Advancing

  /// Advances to the next event and runs it; false if none is scheduled.
  @discardableResult
  public func runNext() -> Bool {
    runNext(notAfter: Instant(nanoseconds: .max))
  }

  /// Advances the time by `duration` and runs the events within it.
  public func advance(by duration: Duration) {
    let end = now.advanced(by: duration)
    while runNext(notAfter: end) {}
    now = max(now, end)
  }

  /// Runs events until `condition` holds. The condition is checked before the first event and after each.
  ///
  /// - Returns: whether the condition holds; false after `limit`.
  @discardableResult
  public func run(until condition: () -> Bool, limit: Duration) -> Bool {
    let end = now.advanced(by: limit)
    while !condition() {
      guard runNext(notAfter: end) else {
        now = max(now, end)
        return condition()
      }
    }
    return true
  }

  /// Runs events until none is scheduled. The time is then that of the last event.
  ///
  /// - Returns: false if events were still scheduled after `limit`.
  @discardableResult
  public func runUntilIdle(limit: Duration) -> Bool {
    let end = now.advanced(by: limit)
    while runNext(notAfter: end) {}
    guard queue.count > 0 else { return true }
    now = max(now, end)
    return false
  }

  private func runNext(notAfter end: Instant) -> Bool {
    guard let (time, body) = queue.pop(dueAt: end) else { return false }
    now = max(now, time)
    body()
    return true
  }
}
