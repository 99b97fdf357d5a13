import Common

/// Detects a blocked worker: it repeatedly sends an empty piece of work through the worker, and checks whether it
/// completes.
@LoopActor
public final class Canary {
  private let worker: any Offloading
  private let scheduler: any Scheduler
  private let limit: Duration
  private var sent: Instant?

  /// - Parameters:
  ///   - worker: the worker to check.
  ///   - limit: time without completion after which the worker counts as blocked.
  public init(through worker: any Offloading, _ scheduler: any Scheduler, limit: Duration) {
    self.worker = worker
    self.scheduler = scheduler
    self.limit = limit
  }

  /// Sends a canary if none is pending.
  ///
  /// - Returns: false if a canary has been pending for `limit` or longer.
  public func isBack() -> Bool {
    if let sent { return sent.duration(to: scheduler.now) < limit }
    sent = scheduler.now
    worker.offload({}, then: { [weak self] in self?.sent = nil })
    return true
  }
}
