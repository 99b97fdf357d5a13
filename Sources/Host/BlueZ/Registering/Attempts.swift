import Common
import Loop

/// Repeats an operation until it succeeds, while an adapter is available: after a pause if it failed, and again if it
/// was undone. The owner performs the operation.
@LoopActor
final class Attempts {
  private enum State {
    /// No attempt is made, because no adapter is available.
    case idle
    case underWay
    case done
    /// The next attempt begins when the timer fires.
    case waiting(Registration)
    case closed
  }

  /// The reason why the operation is not done, and what to do; nil if it is done or under way.
  private(set) var problem: String?
  private(set) var place: Place?
  /// Makes an attempt. Without an adapter it may undo an earlier attempt.
  var begin: @LoopActor () -> Void = {}
  /// Called when `isDone` changed; not by `close`.
  var onDone: @LoopActor (Bool) -> Void = { _ in }

  private let scheduler: any Scheduler
  private let onChange: @LoopActor () -> Void
  private var state = State.idle {
    didSet {
      guard isDone != wasDone else { return }
      wasDone = isDone
      onDone(isDone)
    }
  }
  private var wasDone = false
  /// Number of the present attempt; answers to earlier attempts are ignored.
  private var number = 0
  /// Whether the operation must be repeated after the present attempt, because it was requested again.
  private var wantsRenewal = false
  private var backoff: Backoff

  /// - Parameters:
  ///   - pauses: the pauses after failed attempts.
  ///   - onChange: called when `problem` changed.
  init(scheduler: any Scheduler, pauses: Backoff = Backoff(), onChange: @escaping @LoopActor () -> Void) {
    self.scheduler = scheduler
    backoff = pauses
    self.onChange = onChange
  }

  var isUnderWay: Bool { if case .underWay = state { true } else { false } }
  var isDone: Bool { if case .done = state { true } else { false } }
  private var isClosed: Bool { if case .closed = state { true } else { false } }

  /// Whether no attempt has failed since the last success.
  var isFresh: Bool { backoff.isFresh }

  // MARK: Requests

  /// Attempts the operation on the adapter `place` from now on; nil if there is none.
  func aim(at place: Place?) {
    guard !isClosed, place != self.place else { return }
    self.place = place
    backoff.reset()
    show(nil)
    restart()
  }

  /// Repeats the operation; a waiting attempt begins immediately.
  func renew() {
    switch state {
    case .done, .waiting: restart()
    case .underWay: wantsRenewal = true
    case .idle, .closed: break
    }
  }

  /// Ends the attempts.
  ///
  /// - Returns: false if they were ended before.
  func close() -> Bool {
    guard !isClosed else { return false }
    number += 1
    onDone = { _ in }
    state = .closed
    return true
  }

  // MARK: Results of an attempt

  /// Wraps `body` so that it is called only while the present attempt is the latest.
  func inAttempt<Answer>(_ body: @escaping @LoopActor (Answer) -> Void) -> @LoopActor (Answer) -> Void {
    let number = number
    return { [weak self] answer in
      if self?.number == number { body(answer) }
    }
  }

  /// Begins a new attempt, which includes all requests so far.
  private func restart() {
    guard !isClosed else { return }
    number += 1
    wantsRenewal = false
    state = place == nil ? .idle : .underWay
    begin()
  }

  /// Clears the request for a renewal, because the present attempt includes all requests so far.
  func catchUp() {
    wantsRenewal = false
  }

  /// Handles the success of the attempt. If a renewal was requested meanwhile, another attempt begins.
  func succeeded() {
    guard !wantsRenewal else {
      backoff.reset()
      return restart()
    }
    let number = number
    state = .done
    // Code that is notified of the success may undo it.
    guard number == self.number else { return }
    backoff.reset()
    show(nil)
  }

  /// Handles a failed attempt, which is repeated after a pause.
  ///
  /// - Parameter sentence: the reason; nil if another object reports it.
  func failed(_ sentence: String? = nil) {
    if let sentence { show(sentence) }
    wait()
  }

  /// Handles a failed attempt that is repeated without a pause.
  func failedOnce() {
    _ = backoff.next()
    restart()
  }

  /// Handles that another program has undone the operation, or a part of it.
  func undone() {
    guard !isClosed, place != nil else { return }
    number += 1
    wait()
  }

  private func wait() {
    guard !isClosed else { return }
    state = .waiting(scheduler.schedule(after: backoff.next()) { [weak self] in self?.restart() })
  }

  private func show(_ problem: String?) {
    guard problem != self.problem else { return }
    self.problem = problem
    onChange()
  }
}
