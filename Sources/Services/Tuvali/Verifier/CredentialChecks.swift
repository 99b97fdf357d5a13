import Checking
import Common
import Journal
import Loop
import Transfers

/// Checks the credentials of transfers: queues the checks, and monitors whether there is a checker.
@LoopActor
final class CredentialChecks {
  /// Interval at which the socket of a missing checker is looked for.
  static let searchInterval = Duration.seconds(60)

  struct Counters: Hashable {
    /// Number of verdicts of the checker (`checked`), and of those that were `valid`.
    var checked: UInt64 = 0, valid: UInt64 = 0
    /// Number of checks that ended without a verdict.
    var failed: UInt64 = 0
  }

  private(set) var counters = Counters()
  /// Problem of the checker and remedy, for people; empty if there is none.
  private(set) var trouble = ""

  private let checker: any CredentialChecker
  private let queue: CheckQueue
  private let scheduler: any Scheduler
  private var isOn = false
  private var search: Registration?
  private var onTrouble: @LoopActor () -> Void = {}
  private var onReturn: @LoopActor () -> Void = {}

  init(_ checker: any CredentialChecker, scheduler: any Scheduler) {
    self.checker = checker
    self.scheduler = scheduler
    queue = CheckQueue(checker)
  }

  /// Number of checks in progress, and of waiting ones.
  var count: (running: Int, waiting: Int) { queue.count }

  /// Calls `trouble` when the problem has changed, and `returned` when a checker is available again.
  func observe(trouble: @escaping @LoopActor () -> Void, returned: @escaping @LoopActor () -> Void) {
    (onTrouble, onReturn) = (trouble, returned)
  }

  /// Turns checking on or off. Turning it off cancels checks in progress.
  func turn(on isOn: Bool) {
    self.isOn = isOn
    if isOn { return look() }
    queue.removeAll()
    search = nil
    set("")
  }

  /// Checks the credential of a transfer.
  ///
  /// - Parameter then: called once with the verdict, unless the credential is erased or checking is turned off before.
  func check(_ transfer: Transfer, then: @escaping @LoopActor (Transfer, CheckVerdict) -> Void) {
    guard isOn, transfer.text != nil else { return }
    transfer.note(.pending)
    queue.add(
      transfer.number, credential: { [weak transfer] in try? transfer?.text?.bytes() },
      then: { [weak self, weak transfer] verdict in
        guard let self else { return }
        count(verdict)
        if let transfer { then(transfer, verdict) }
      })
  }

  /// Cancels the check of a transfer whose credential is gone.
  func remove(_ transfer: Transfer) { queue.remove(transfer.number) }

  private func count(_ verdict: CheckVerdict) {
    switch verdict.failure {
    case nil:
      counters.checked += 1
      if verdict.word == .valid { counters.valid += 1 }
      set("")
    case .missing(let sentence)?:
      counters.failed += 1
      set(sentence)
    case .failed?, .timedOut?, .badReply?: counters.failed += 1
    }
  }

  // MARK: Availability of the checker

  private func look() {
    search = nil
    guard isOn else { return }
    set(checker.absence ?? "")
  }

  private func set(_ sentence: String) {
    let before = trouble
    trouble = sentence
    if trouble.isEmpty {
      search = nil
    } else if search == nil {
      search = scheduler.schedule(after: Self.searchInterval) { [weak self] in self?.look() }
    }
    guard trouble != before else { return }
    if trouble.isEmpty {
      if isOn { Log.shared.notice("The credential checker is running again", .protocolName("tuvali")) }
    } else {
      Log.shared.warning(
        "\(trouble)", id: .checkerMissing, .setting("Verifier.Check"), .error(Self.missing),
        .protocolName("tuvali"))
    }
    onTrouble()
    if trouble.isEmpty, isOn { onReturn() }
  }

  private static let missing = CheckVerdict.Failure.missing("").code
}

/// Handling of the checker's verdicts: the keys `Check`, `CheckSocket`, `CheckTimeout` and `OnUndecided` of section
/// `[Verifier]`.
public struct CheckPolicy: Hashable, Sendable {
  /// Handling of a credential on which the checker is undecided.
  public enum OnUndecided: String, Sendable, CaseIterable { case hold, reject }

  /// Sentence that reports `Decision=check` without `Check=yes`.
  static let needsCheck =
    "Decision=check needs Check=yes: until then each credential waits for a program or an operator."

  /// Whether received credentials are checked (`Check=`).
  public var isOn = false
  /// Path of the socket at which the checker listens.
  public var socket = SocketChecker.defaultPath
  /// Time after which a check without a verdict is given up (`CheckTimeout=`).
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
