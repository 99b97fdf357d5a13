import Loop

/// What is to be so at a place, for as long as there is one: it is attempted, again with a longer pause after each attempt
/// that failed, and again when it was undone. How it is attempted is its owner's.
@LoopActor
final class Attempts {
  private enum State {
    /// There is nowhere to do it.
    case idle
    case underWay
    case done
    /// It is tried again when the timer fires.
    case waiting(Registration)
    case closed
  }

  /// Why it is not done, and what to do; nil when it is, or when it is merely under way.
  private(set) var problem: String?
  private(set) var place: Place?
  /// Makes an attempt; where there is no place, takes away what is left.
  var begin: @LoopActor () -> Void = {}

  private let scheduler: any Scheduler
  private let onChange: @LoopActor () -> Void
  private var state = State.idle
  /// Answers to an earlier attempt mean nothing any more.
  private var number = 0
  /// Asked for while an attempt was under way.
  private var wantsRenewal = false
  private var backoff = Backoff()

  /// - Parameter onChange: called when `problem` changed.
  init(scheduler: any Scheduler, onChange: @escaping @LoopActor () -> Void) {
    self.scheduler = scheduler
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

  /// Begins anew, with what was asked for meanwhile.
  private func restart() {
    guard !isClosed else { return }
    number += 1
    wantsRenewal = false
    state = place == nil ? .idle : .underWay
    begin()
  }

  /// What was asked for so far is about to be done.
  func catchUp() {
    wantsRenewal = false
  }

  /// - Parameter announce: called before what was asked for meanwhile begins.
  func succeeded(_ announce: @LoopActor () -> Void = {}) {
    state = .done
    backoff.reset()
    show(nil)
    announce()
    if wantsRenewal { restart() }
  }

  /// - Parameter sentence: why; nil where that is told otherwise.
  func failed(_ sentence: String? = nil) {
    if let sentence { show(sentence) }
    wait()
  }

  /// It failed, and is tried again without a pause.
  func failedOnce() {
    _ = backoff.next()
    restart()
  }

  /// Somebody took away what was done, or is being done.
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
