import Common

/// Clock, timers and offloaded work for a service: in a program the event loop, in a test virtual time.
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

/// Executes work away from the loop.
@LoopActor
public protocol Offloading: AnyObject, Sendable {
  /// Runs `work`, which takes more than a millisecond, away from the loop, and passes its result to `then` on the loop.
  func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void)
}

/// A handle of a timer, a watched descriptor, an advertisement, a bus object or similar. `cancel()`, or releasing the
/// last reference, removes it; further calls have no effect.
public final class Registration: Sendable {
  private let takeDown: OneShot

  /// - Parameter takeDown: called once, on the loop.
  public nonisolated init(_ takeDown: @escaping @LoopActor () -> Void) {
    self.takeDown = OneShot(takeDown)
  }

  @LoopActor
  public func cancel() {
    takeDown.take()?()
  }

  deinit {
    guard let body = takeDown.take() else { return }
    if EventLoop.shared.isCurrent {
      LoopActor.assumeIsolated(body)
    } else {
      EventLoop.shared.soon(body)
    }
  }
}

/// Stores a closure, which can be taken and called only once.
final class OneShot: Sendable {
  private let body: Locked<(@LoopActor () -> Void)?>

  init(_ body: @escaping @LoopActor () -> Void) {
    self.body = Locked(body)
  }

  func take() -> (@LoopActor () -> Void)? {
    body.withLock { body in
      defer { body = nil }
      return body
    }
  }
}

/// A deadline that may move. Postponing it costs one comparison, because the underlying timer is reset only when it
/// fires early. Without a deadline there is no timer.
@LoopActor
public final class Deadline {
  private let scheduler: any Scheduler
  private let body: @LoopActor () -> Void
  private var wanted: Instant?
  private var armed: (at: Instant, timer: Registration)?

  /// - Parameter body: called on the loop at the deadline, which is then unset.
  public init(_ scheduler: any Scheduler, _ body: @escaping @LoopActor () -> Void) {
    self.scheduler = scheduler
    self.body = body
  }

  /// Whether a deadline is set that has not been reached.
  public var isSet: Bool { wanted != nil }

  /// Moves the deadline to `instant`; nil removes it.
  public func set(_ instant: Instant?) {
    wanted = instant
    guard let instant else {
      armed = nil
      return
    }
    if let armed, armed.at <= instant { return }
    arm(instant)
  }

  private func arm(_ instant: Instant) {
    let timer = scheduler.schedule(at: instant) { [weak self] in self?.fire() }
    armed = (instant, timer)
  }

  private func fire() {
    armed = nil
    guard let wanted else { return }
    if wanted <= scheduler.now {
      self.wanted = nil
      body()
    } else {
      arm(wanted)
    }
  }
}
