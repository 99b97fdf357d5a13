import Common

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
