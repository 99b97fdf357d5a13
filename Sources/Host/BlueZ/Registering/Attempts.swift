import Loop

/// Something that is to be so at a place, for as long as there is a place: it is attempted, again after a pause where the
/// attempt failed, and again when it was undone. The owner knows how it is attempted.
@LoopActor
final class Attempts {
  private enum State {
    /// There is no place to do it at.
    case idle
    case underWay
    case done
    /// The next attempt begins when the timer fires.
    case waiting(Registration)
    case closed
  }

  /// Why it is not done, and what to do; nil when it is done, or merely under way.
  private(set) var problem: String?
  private(set) var place: Place?
  /// Makes an attempt; where there is no place, may take away what an earlier attempt did.
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
  /// Of the present attempt: an answer to an earlier one means nothing.
  private var number = 0
  /// Whether another attempt was asked for while one was under way.
  private var wantsRenewal = false
  private var backoff: Backoff

  /// - Parameters:
  ///   - pauses: after attempts that failed.
  ///   - onChange: called when `problem` changed.
  init(scheduler: any Scheduler, pauses: Backoff = Backoff(), onChange: @escaping @LoopActor () -> Void) {
    self.scheduler = scheduler
    backoff = pauses
    self.onChange = onChange
  }

  var isUnderWay: Bool { if case .underWay = state { true } else { false } }
  var isDone: Bool { if case .done = state { true } else { false } }
  private var isClosed: Bool { if case .closed = state { true } else { false } }

  /// Whether no attempt failed since the last that succeeded.
  var isFresh: Bool { backoff.isFresh }

  // MARK: What is wanted

  /// Attempts it at `place` from now on; nil when there is none.
  func aim(at place: Place?) {
    guard !isClosed, place != self.place else { return }
    self.place = place
    backoff.reset()
    show(nil)
    restart()
  }

  /// Does it once more; an attempt that waits is made now.
  func renew() {
    switch state {
    case .done, .waiting: restart()
    case .underWay: wantsRenewal = true
    case .idle, .closed: break
    }
  }

  /// - Returns: whether it was not closed before.
  func close() -> Bool {
    guard !isClosed else { return false }
    number += 1
    onDone = { _ in }
    state = .closed
    return true
  }

  // MARK: What becomes of an attempt

  /// `body`, for as long as the present attempt is the latest.
  func inAttempt<Answer>(_ body: @escaping @LoopActor (Answer) -> Void) -> @LoopActor (Answer) -> Void {
    let number = number
    return { [weak self] answer in
      if self?.number == number { body(answer) }
    }
  }

  /// Begins anew, with all that was asked for meanwhile.
  private func restart() {
    guard !isClosed else { return }
    number += 1
    wantsRenewal = false
    state = place == nil ? .idle : .underWay
    begin()
  }

  /// The attempt is about to do all that was asked for so far.
  func catchUp() {
    wantsRenewal = false
  }

  /// What was attempted is done, unless something else is wanted by now.
  func succeeded() {
    guard !wantsRenewal else {
      backoff.reset()
      return restart()
    }
    let number = number
    state = .done
    // What is done may be taken back by those who hear of it.
    guard number == self.number else { return }
    backoff.reset()
    show(nil)
  }

  /// - Parameter sentence: why; nil where that is told otherwise.
  func failed(_ sentence: String? = nil) {
    if let sentence { show(sentence) }
    wait()
  }

  /// It failed, and is attempted again without a pause.
  func failedOnce() {
    _ = backoff.next()
    restart()
  }

  /// Another program took away what was done, or is being done.
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
