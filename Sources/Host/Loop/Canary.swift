import Common

/// A piece of work that does nothing, sent through a worker again and again: whether it comes back says whether the worker
/// still works.
@LoopActor
public final class Canary {
  private let worker: any Offloading
  private let scheduler: any Scheduler
  private let limit: Duration
  private var sent: Instant?

  /// - Parameters:
  ///   - worker: what is watched.
  ///   - limit: how long a canary may be away before the worker counts as hanging.
  public init(through worker: any Offloading, _ scheduler: any Scheduler, limit: Duration) {
    self.worker = worker
    self.scheduler = scheduler
    self.limit = limit
  }

  /// Sends a canary, where none is on its way.
  ///
  /// - Returns: whether the worker works, as far as is known: none has been on its way for the limit.
  public func isBack() -> Bool {
    if let sent { return sent.duration(to: scheduler.now) < limit }
    sent = scheduler.now
    worker.offload({}, then: { [weak self] in self?.sent = nil })
    return true
  }
}
