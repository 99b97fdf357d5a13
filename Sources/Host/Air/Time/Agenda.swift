import Common
import Loop

/// The scheduled events of a simulated radio. In virtual time each entry is a separate event. On the event loop all due
/// entries run together, so that a packet needs neither a timer nor a system call.
@LoopActor
final class Agenda {
  /// Maximum entries that run in one loop iteration.
  private static let batch = 512

  private let scheduler: any Scheduler
  private let virtual: VirtualTime?
  private let loop: EventLoop?
  private var queue = TimedQueue()
  private var timer: (at: Instant, registration: Registration)?
  private var isAwake = false
  private var immediate: Registration?

  init(_ scheduler: any Scheduler) {
    self.scheduler = scheduler
    self.virtual = scheduler as? VirtualTime
    self.loop = scheduler as? EventLoop
  }

  var now: Instant { scheduler.now }

  /// Calls `body` at `instant`, never from within this call.
  @discardableResult
  func at(_ instant: Instant, _ body: @escaping @LoopActor () -> Void) -> TimedQueue.Ticket {
    if let virtual { return virtual.enter(at: instant, body) }
    let ticket = queue.add(at: instant, body)
    if instant <= scheduler.now { wake() } else { arm() }
    return ticket
  }

  /// Calls `body` at the present time, after the entries that are already scheduled for it.
  func next(_ body: @escaping @LoopActor () -> Void) {
    at(now, body)
  }

  func cancel(_ ticket: TimedQueue.Ticket) {
    if let virtual {
      virtual.cancel(ticket)
    } else {
      let body = queue.cancel(ticket)
      withExtendedLifetime(body) {}
    }
  }

  private func wake() {
    guard !isAwake else { return }
    isAwake = true
    if let loop {
      loop.soon { [weak self] in self?.run() }
    } else {
      immediate = scheduler.schedule(at: scheduler.now) { [weak self] in self?.run() }
    }
  }

  private func arm() {
    guard !isAwake, let first = queue.firstTime() else { return }
    if let timer, timer.at <= first { return }
    let registration = scheduler.schedule(at: first) { [weak self] in
      self?.timer = nil
      self?.wake()
    }
    timer = (first, registration)
  }

  private func run() {
    let now = scheduler.now
    var allowed = Self.batch
    while allowed > 0, let (_, body) = queue.pop(dueAt: now) {
      body()
      allowed -= 1
    }
    isAwake = false
    guard let first = queue.firstTime() else { return }
    if first <= scheduler.now { wake() } else { arm() }
  }
}
