import Common

/// The temporary change of a controller setting that all programs share: one setting of one controller. A value type:
/// events and time are inputs, actions are outputs.
///
/// The present value is read first. It is written if it differs from the request, and read again when the controller
/// returns. It is restored when the request ends or another controller is in use. Before that, it is read again, and
/// changes of other programs are preserved. One command is under way at a time.
///
/// After a transient refusal the command is repeated, up to `limit` attempts. The next series begins when the
/// controller returns or the request changes.
struct Loan<Setting: LentSetting>: Sendable {
  typealias Value = Setting.Value

  enum Event: Sendable {
    /// The setting that is requested now; nil if none is, so that the controller's own setting may apply.
    case wish(Setting.Wish?)
    /// The controller in use has changed; nil if there is none. If it is the previous one again, it may have been off.
    case controller(UInt16?)
    /// A controller was unplugged, and its settings are lost.
    case removed(UInt16)
    /// The controller has answered `read` with its present setting.
    case found(Value)
    /// The controller has confirmed `write`.
    case written
    /// The controller has refused `read` or `write`.
    case failed(Refusal)
    /// The time of `deadline` has come.
    case timer
  }

  enum Refusal: Hashable, Sendable {
    /// The kernel has no such controller any more.
    case gone
    /// The controller is off, or not ready.
    case off(String)
    /// The controller may accept the same command later. The text is the kernel's error.
    case passing(String)
    case lasting(String)
  }

  enum Action: Hashable, Sendable {
    case read(UInt16)
    /// Write the first value in place of `over`, the value that was read.
    case write(Value, over: Value, UInt16)
  }

  /// A change that must be undone: the value that was written to a controller, and the value that it would have
  /// otherwise.
  private struct Debt: Hashable, Sendable {
    var controller: UInt16
    var original: Value
    var written: Value
  }

  private enum State: Hashable, Sendable {
    case idle
    case reading(UInt16, isReturn: Bool)
    case writing(Debt, isReturn: Bool)
    /// The next attempt begins at this time.
    case waiting(until: Instant)
    /// The setting is in effect, or nothing can be done until the controller returns.
    case done
    case refused(String)
  }

  /// Maximum attempts of one command before it counts as refused.
  static var limit: Int { 4 }

  private var wish: Setting.Wish?
  private var controller: UInt16?
  private var debt: Debt?
  private var state = State.idle
  /// Whether a request or a controller has changed while a command was under way.
  private var isStale = false
  private var failures = 0
  private var backoff = Backoff()

  /// The reason why the setting is not in effect; nil if it is, or is about to be.
  var problem: String? { if case .refused(let words) = state { words } else { nil } }

  /// Whether no command is under way, and no setting must be restored.
  var isSettled: Bool {
    switch state {
    case .reading, .writing, .waiting: false
    case .idle, .done, .refused: debt == nil
    }
  }

  /// When the owner must send the event `timer`; nil while no attempt is due.
  var deadline: Instant? { if case .waiting(let until) = state { until } else { nil } }

  private var isUnderWay: Bool {
    switch state {
    case .reading, .writing: true
    case .idle, .waiting, .done, .refused: false
    }
  }

  mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .wish(let wish):
      guard wish != self.wish else { return [] }
      self.wish = wish
      return begin()
    case .controller(let controller):
      self.controller = controller
      return begin()
    case .removed(let controller):
      if debt?.controller == controller { debt = nil }
      return []
    case .found(let value): return found(value)
    case .written: return written()
    case .failed(let refusal): return failed(refusal, at: now)
    case .timer:
      guard let deadline, deadline <= now else { return [] }
      state = .idle
      return next()
    }
  }

  // MARK: Deciding

  /// Begins a new series of attempts, without regard to earlier failures.
  private mutating func begin() -> [Action] {
    if isUnderWay {
      isStale = true
      return []
    }
    forgetFailures()
    state = .idle
    return next()
  }

  private mutating func forgetFailures() {
    failures = 0
    backoff.reset()
  }

  private mutating func next() -> [Action] {
    guard case .idle = state else { return [] }
    if let debt, wish == nil || controller != nil && controller != debt.controller {
      state = .reading(debt.controller, isReturn: true)
      return [.read(debt.controller)]
    }
    guard wish != nil, let controller else { return [] }
    state = .reading(controller, isReturn: false)
    return [.read(controller)]
  }

  /// Handles an answer after changes during the command by deciding again.
  ///
  /// - Returns: nil if nothing changed.
  private mutating func restart() -> [Action]? {
    guard isStale else { return nil }
    isStale = false
    return begin()
  }

  private mutating func end(_ state: State) -> [Action] {
    forgetFailures()
    self.state = state
    return next()
  }

  // MARK: Answers

  private mutating func found(_ value: Value) -> [Action] {
    guard case .reading(let index, let isReturn) = state else { return [] }
    state = .idle
    if let actions = restart() { return actions }
    var original = value
    if let debt, debt.controller == index {
      original = Setting.withoutUs(value, written: debt.written, original: debt.original)
    }
    var target: Value? = original
    if !isReturn, let wish { target = Setting.wished(wish, from: original) }
    guard let target else { return end(.refused(Setting.unknown)) }
    guard target != value else {
      debt = original == value ? nil : Debt(controller: index, original: original, written: value)
      return end(isReturn ? .idle : .done)
    }
    state = .writing(Debt(controller: index, original: original, written: target), isReturn: isReturn)
    return [.write(target, over: value, index)]
  }

  private mutating func written() -> [Action] {
    guard case .writing(let written, let isReturn) = state else { return [] }
    debt = isReturn ? nil : written
    state = .idle
    if let actions = restart() { return actions }
    return end(isReturn ? .idle : .done)
  }

  private mutating func failed(_ refusal: Refusal, at now: Instant) -> [Action] {
    let isReturn: Bool
    switch state {
    case .reading(_, let value): isReturn = value
    case .writing(let written, let value):
      isReturn = value
      // A command without an answer may have been executed.
      if !isReturn, case .passing = refusal { debt = written }
    case .idle, .waiting, .done, .refused: return []
    }
    state = .idle
    // A controller that is gone or off has lost its settings, which need not be restored.
    switch refusal {
    case .gone where isReturn, .off where isReturn, .lasting where isReturn: debt = nil
    case .gone, .off, .passing, .lasting: break
    }
    if let actions = restart() { return actions }
    switch refusal {
    case .gone: return end(isReturn ? .idle : .done)
    case .lasting(let words): return end(isReturn ? .idle : .refused(words))
    case .off where isReturn: return end(.idle)
    case .off(let words), .passing(let words):
      failures += 1
      if failures < Self.limit {
        state = .waiting(until: now.advanced(by: backoff.next()))
        return []
      }
      if isReturn { debt = nil }
      return end(isReturn ? .idle : .refused(words))
    }
  }
}

/// A kind of setting that can be changed temporarily.
protocol LentSetting: Sendable {
  /// The value of the setting as a controller reports it.
  associatedtype Value: Hashable, Sendable
  /// The part of the setting that this program requests.
  associatedtype Wish: Hashable, Sendable

  /// The reason that is reported if `wished` returns nil.
  static var unknown: String { get }

  /// The setting that fulfils the request on a controller with `value`; nil if the kernel does not support the setting.
  static func wished(_ wish: Wish, from value: Value) -> Value?

  /// The setting that a controller would have without this program. It has `value` now, had `original` before, and
  /// this program wrote `written`. Later changes by another program count as the controller's own.
  static func withoutUs(_ value: Value, written: Value, original: Value) -> Value
}
