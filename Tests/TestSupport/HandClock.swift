import Common
import Loop

/// A manual clock, for a test beside the real loop.
@LoopActor
public final class HandClock: Scheduler {
  private final class Timer {
    let due: Instant
    var body: (@LoopActor () -> Void)?

    init(_ due: Instant, _ body: @escaping @LoopActor () -> Void) {
      self.due = due
      self.body = body
    }
  }

  public private(set) var now = Instant(nanoseconds: 0)
  private var timers: [Timer] = []

  public nonisolated init() {}

  /// Advances the time, and calls the handlers that are due, in order.
  public func advance(by duration: Duration) {
    let end = now.advanced(by: duration)
    while let next = timers.filter({ $0.due <= end && $0.body != nil }).min(by: { $0.due < $1.due }) {
      now = max(now, next.due)
      timers.removeAll { $0 === next }
      next.body?()
    }
    timers.removeAll { $0.body == nil }
    now = end
  }

  /// Whether no handler is scheduled.
  public var isIdle: Bool { timers.allSatisfy { $0.body == nil } }

  /// Calls the handlers that are due, without advancing the time.
  public func run() { advance(by: .zero) }

  public func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration {
    let timer = Timer(instant, body)
    timers.append(timer)
    return Registration { timer.body = nil }
  }

  public func soon(_ body: @escaping @LoopActor () -> Void) {
    timers.append(Timer(now, body))
  }

  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    let value = work()
    soon { then(value) }
  }
}

/// A worker that executes its work only when the test calls `release`.
@LoopActor
public final class HeldWorker: Offloading {
  public private(set) var held: [@LoopActor () -> Void] = []

  public nonisolated init() {}

  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    held.append { then(work()) }
  }

  /// Executes all pending work, in order.
  public func release() {
    let pieces = held
    held = []
    for piece in pieces { piece() }
  }
}
