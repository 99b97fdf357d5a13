import Checking

/// What the service does with the checker's verdicts: the keys `Check`, `CheckSocket`, `CheckTimeout` and `OnUndecided` of section `[Verifier]`.
public struct CheckPolicy: Hashable, Sendable {
  /// What becomes of a credential on which the checker has no opinion.
  public enum OnUndecided: String, Sendable, CaseIterable { case hold, reject }

  /// The problem of `Decision=check` without `Check=yes`.
  static let needsCheck =
    "Decision=check needs Check=yes: until then each credential waits for a program or an operator."

  /// Whether each received credential is checked.
  public var isOn = false
  /// The socket of the checker.
  public var socket = SocketChecker.defaultPath
  /// The time limit of a check.
  public var timeout = SocketChecker.defaultTimeout
  public var onUndecided = OnUndecided.hold

  public init(isOn: Bool = false, onUndecided: OnUndecided = .hold) {
    (self.isOn, self.onUndecided) = (isOn, onUndecided)
  }

  /// The service's own decision on a credential with `Decision=check`: true accepts it, false rejects it, and nil leaves it to the
  /// operator. Only the checker's word `valid` accepts.
  ///
  /// A checker that is not installed rejects nothing: that is a fault of this machine.
  func decision(on verdict: CheckVerdict) -> Bool? {
    switch verdict.word {
    case .valid: return true
    case .invalid, .untrusted, .revoked, .expired, .notYetValid: return false
    case .undecided:
      if case .missing? = verdict.failure { return nil }
      return onUndecided == .reject ? false : nil
    }
  }
}
