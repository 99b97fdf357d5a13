import Checking
import Common
import Journal
import Loop
import Transfers

/// Has the credentials of transfers checked: queues the checks, and follows whether there is a checker.
@LoopActor
final class CredentialChecks {
  /// While there is no checker, its socket is looked for this often.
  static let searchInterval = Duration.seconds(60)

  struct Counters: Hashable {
    /// Verdicts of the checker, and those of them that were `valid`.
    var checked: UInt64 = 0, valid: UInt64 = 0
    /// Checks that ended without a verdict of the checker.
    var failed: UInt64 = 0
  }

  private(set) var counters = Counters()
  /// What is wrong with the checker, and what to do, for a person; empty when nothing is.
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

  /// Checks under way, and checks that wait.
  var count: (running: Int, waiting: Int) { queue.count }

  /// Calls `trouble` when the trouble has changed, and `returned` when there is a checker again.
  func observe(trouble: @escaping @LoopActor () -> Void, returned: @escaping @LoopActor () -> Void) {
    (onTrouble, onReturn) = (trouble, returned)
  }

  /// Turns checking on or off. When it is turned off, checks under way are given up.
  func turn(on isOn: Bool) {
    self.isOn = isOn
    if isOn { return look() }
    queue.removeAll()
    search = nil
    set("")
  }

  /// Has the credential of a transfer checked.
  ///
  /// - Parameter then: called once with the verdict, unless the credential goes or checking is turned off before.
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

  /// The credential of a transfer is gone.
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

  // MARK: Whether there is a checker

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
      if isOn { Log.shared.notice("There is a credential checker again", .protocolName("tuvali")) }
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
