import Common

/// One moving deadline. Moving it back costs a comparison, because the timer below is set anew only when it fires early.
/// Without a deadline there is no timer either: nobody is woken for nothing.
@LoopActor
public final class Deadline {
  private let scheduler: any Scheduler
  private let body: @LoopActor () -> Void
  private var wanted: Instant?
  private var armed: (at: Instant, timer: Registration)?

  /// - Parameter body: called on the loop when the deadline has come; the deadline is then unset.
  public init(_ scheduler: any Scheduler, _ body: @escaping @LoopActor () -> Void) {
    self.scheduler = scheduler
    self.body = body
  }

  /// Moves the deadline to `instant`; nil takes it away.
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
