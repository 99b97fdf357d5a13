import Checking

/// Handling of the checker's verdicts: the keys `Check`, `CheckSocket`, `CheckTimeout` and `OnUndecided` of section
/// `[Verifier]`.
public struct CheckPolicy: Hashable, Sendable {
  /// Handling of a credential on which the checker is undecided.
  public enum OnUndecided: String, Sendable, CaseIterable { case hold, reject }

  /// Problem of `Decision=check` without `Check=yes`.
  static let needsCheck =
    "Decision=check needs Check=yes: until then each credential waits for a program or an operator."

  /// Whether received credentials are checked.
  public var isOn = false
  /// Socket of the checker.
  public var socket = SocketChecker.defaultPath
  /// Time limit of a check.
  public var timeout = SocketChecker.defaultTimeout
  public var onUndecided = OnUndecided.hold

  public init(isOn: Bool = false, onUndecided: OnUndecided = .hold) {
    (self.isOn, self.onUndecided) = (isOn, onUndecided)
  }

  /// The service's decision on a credential with `Decision=check`: true accepts it, false rejects it, nil leaves it to
  /// the operator. Only the verdict `valid` accepts.
  ///
  /// A missing checker rejects nothing, because that is a fault of this machine.
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
