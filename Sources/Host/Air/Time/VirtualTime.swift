import Common
import Loop

/// Time that passes only when a test lets it pass: a scheduler for tests and simulations. It starts at `Instant.zero`.
///
/// Events run one after the other by time and, within one instant, in the order in which they were scheduled. The same
/// program run twice does the same things at the same times.
@LoopActor
public final class VirtualTime: Scheduler {
  public private(set) var now = Instant.zero
  private var queue = TimedQueue()

  public init() {}

  /// Events that are still to run.
  public var pending: Int { queue.count }

  // MARK: Scheduling

  /// Calls `body` at `instant`, or at the present one if that is past; from within one of the calls that run events.
  public func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration {
    let ticket = enter(at: instant, body)
    return Registration { [weak self] in self?.cancel(ticket) }
  }

  /// Calls `body` as an event of the present instant, behind those that were scheduled for it before.
  public func soon(_ body: @escaping @LoopActor () -> Void) {
    enter(at: now, body)
  }

  /// Runs `work` at once, and `then` as an event of the present instant.
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

  // MARK: Passing

  /// Goes to the next event and runs it; false when no event is scheduled.
  @discardableResult
  public func runNext() -> Bool {
    runNext(notAfter: Instant(nanoseconds: .max))
  }

  /// Lets `duration` pass, with all that happens in it.
  public func advance(by duration: Duration) {
    let end = now.advanced(by: duration)
    while runNext(notAfter: end) {}
    now = max(now, end)
  }

  /// Runs events until `condition` holds, looking at it before the first and after each.
  ///
  /// - Returns: whether it came to hold; otherwise `limit` has passed.
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

  /// Runs events until no event is scheduled. The time is then that of the last event.
  ///
  /// - Returns: false when events were still scheduled after `limit`.
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
