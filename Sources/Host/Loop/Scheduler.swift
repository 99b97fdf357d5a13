import Common

/// Time and work, as a service sees them: the event loop in a program, virtual time in a test.
@LoopActor
public protocol Scheduler: Offloading {
  /// The present moment. It never goes back, whatever the wall clock does.
  var now: Instant { get }

  /// Calls `body` once on the loop, at `instant` or as soon after it as possible, and never from within this call.
  func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration

  /// Calls `body` on the loop, once, after all that is due before it; never from within this call.
  func soon(_ body: @escaping @LoopActor () -> Void)
}

extension Scheduler {
  /// Calls `body` once, after `delay`.
  public func schedule(after delay: Duration, _ body: @escaping @LoopActor () -> Void) -> Registration {
    schedule(at: now.advanced(by: delay), body)
  }
}
