import Common

/// Something that a controller has for all programs together, and that this program has otherwise while it needs it: the loan
/// of one such thing at one controller. A value: events and time in, actions out.
///
/// What is there is read first. It is written where it is not as wished, read again when the controller comes back, and given
/// back when nobody wishes it any more or another controller is in use: then, too, it is read first, and what another program
/// has changed meanwhile stays. One command is under way at a time.
///
/// A controller that refuses is asked again `limit` times in all where that may pass, then no more until it comes back or the
/// wish is another one.
struct Loan<Setting: LentSetting>: Sendable {
  typealias Value = Setting.Value

  enum Event: Sendable {
    /// What is to be; nil where all may be as it would be without us.
    case wish(Setting.Wish?)
    /// Which controller is in use from now on; nil for none. The one that was in use before may have been off meanwhile.
    case controller(UInt16?)
    /// A controller was taken out, and what was written to it is gone.
    case removed(UInt16)
    /// The answer to `read`.
    case found(Value)
    /// The answer to `write`.
    case written
    /// Either was refused.
    case failed(Refusal)
    /// `deadline` has come.
    case timer
  }

  enum Refusal: Hashable, Sendable {
    /// The controller is not there.
    case gone
    /// The controller is off, or on its way.
    case off(String)
    /// It may pass.
    case passing(String)
    case lasting(String)
  }

  enum Action: Hashable, Sendable {
    case read(UInt16)
    /// Write `value` over what was found.
    case write(Value, over: Value, UInt16)
  }

  /// What was written to a controller, and what it would have otherwise.
  private struct Debt: Hashable, Sendable {
    var controller: UInt16
    var original: Value
    var written: Value
  }

  private enum State: Hashable, Sendable {
    case idle
    case reading(UInt16, isReturn: Bool)
    case writing(Debt, isReturn: Bool)
    /// It is tried again then.
    case waiting(until: Instant)
    /// It is as wished, or there is nothing to be done until the controller comes back.
    case done
    case refused(String)
  }

  /// How often it is tried at one time.
  static var limit: Int { 4 }

  private var wish: Setting.Wish?
  private var controller: UInt16?
  private var debt: Debt?
  private var state = State.idle
  /// Whether something changed while a command was under way.
  private var isStale = false
  private var failures = 0
  private var backoff = Backoff()

  /// Why it is not as wished; nil where it is, or is about to be.
  var problem: String? { if case .refused(let words) = state { words } else { nil } }

  /// Whether nothing is under way and nothing is to be given back.
  var isSettled: Bool {
    switch state {
    case .reading, .writing, .waiting: false
    case .idle, .done, .refused: debt == nil
    }
  }

  /// When `timer` is due.
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

  /// All that was is tried anew.
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

  /// The answer has come. Where something changed meanwhile, all is decided anew.
  ///
  /// - Returns: nil where nothing changed.
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
      // A command without an answer may have been carried out.
      if !isReturn, case .passing = refusal { debt = written }
    case .idle, .waiting, .done, .refused: return []
    }
    state = .idle
    // What a controller that is gone or off has forgotten by itself need not be given back.
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

/// A kind of thing that is lent.
protocol LentSetting: Sendable {
  /// What a controller has.
  associatedtype Value: Hashable, Sendable
  /// What of it is to be otherwise.
  associatedtype Wish: Hashable, Sendable

  /// Why `wished` is nil.
  static var unknown: String { get }

  /// What a controller that would have `value` is to have; nil where the kernel does not know such a thing.
  static func wished(_ wish: Wish, from value: Value) -> Value?

  /// What a controller would have without us that has `value` now, had `original` before, and got `written` from us: what
  /// another program changed since then counts as the controller's own.
  static func withoutUs(_ value: Value, written: Value, original: Value) -> Value
}
