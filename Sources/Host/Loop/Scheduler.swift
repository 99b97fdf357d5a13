import Common

/// Time and work for a service: the event loop in a program, virtual time in a test.
@LoopActor
public protocol Scheduler: Offloading {
  /// The present moment. It never goes backwards, regardless of the wall clock.
  var now: Instant { get }

  /// Calls `body` once on the loop, at `instant` or as soon as possible afterwards, never from within this call.
  func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration

  /// Calls `body` once on the loop, after everything that is already due; never from within this call.
  func soon(_ body: @escaping @LoopActor () -> Void)
}

extension Scheduler {
  /// Calls `body` once, after `delay`.
  public func schedule(after delay: Duration, _ body: @escaping @LoopActor () -> Void) -> Registration {
    schedule(at: now.advanced(by: delay), body)
  }
}
