import Checking
import Journal
import Loop
import Transfers

/// Starts checks of received credentials, and handles the checker's verdicts.
extension VerifierService {
  /// Problem of checking credentials and remedy, for people; empty if there is none.
  public var checkerTrouble: String {
    if settings.decision == .check, !settings.check.isOn {
      return CheckPolicy.needsCheck
    }
    return checks.trouble
  }

  /// Turns checking on or off according to the settings. When turned on, checks the unchecked credentials.
  func applyCheckPolicy() {
    checks.turn(on: settings.check.isOn)
    for transfer in transfers.transfers where transfer.text != nil {
      switch transfer.check {
      case .none where transfer.state == .received || transfer.state == .accepted: check(transfer)
      case .pending where !settings.check.isOn: transfer.note(.none)
      case .none, .pending, .done: break
      }
    }
  }

  /// Checks again the credentials that were not checked because the checker was missing.
  func checkerReturned() {
    for transfer in transfers.transfers where transfer.text != nil {
      if case .done(let verdict) = transfer.check, case .missing? = verdict.failure { check(transfer) }
    }
  }

  /// Checks a credential, if enabled in the settings.
  func check(_ transfer: Transfer) {
    checks.check(transfer) { [weak self] transfer, verdict in self?.take(verdict, on: transfer) }
  }

  private func take(_ verdict: CheckVerdict, on transfer: Transfer) {
    guard transfer.text != nil else { return }
    let decision = decision(on: verdict, of: transfer)
    var shown = verdict
    // A credential that is rejected now is erased, so its verdict is not written.
    if decision != false, !vault.note(verdict, of: transfer) { shown.forgetClaims() }
    transfer.note(.done(shown))
    measureRoom()
    log(verdict, on: transfer)
    verdicts.call(transfer)
    if let decision { _ = decide(transfer, accepted: decision) }
    changed()
  }

  /// Judges a credential of an earlier run by the verdict of that run.
  func decideByVerdict(_ transfer: Transfer) {
    guard case .done(let verdict) = transfer.check, let decision = decision(on: verdict, of: transfer) else { return }
    _ = decide(transfer, accepted: decision)
  }

  private func decision(on verdict: CheckVerdict, of transfer: Transfer) -> Bool? {
    guard settings.decision == .check, settings.check.isOn, transfer.state == .received else { return nil }
    return settings.check.decision(on: verdict)
  }

  /// Writes the verdict and the codes of its reasons to the journal, without any part of the credential.
  private func log(_ verdict: CheckVerdict, on transfer: Transfer) {
    guard journal.writes(transfer.number) else { return }
    let summary = verdict.description
    switch verdict.failure {
    case nil:
      Log.shared.notice(
        "The credential is \(summary)", id: .credentialChecked, .transfer("\(transfer.number)"), .protocolName("tuvali")
      )
    // The missing checker is already in the journal.
    case .missing?: break
    case let failure?:
      Log.shared.warning(
        "\(failure.sentence) The credential is \(summary)", id: .checkFailed, .transfer("\(transfer.number)"),
        .error(failure.code), .protocolName("tuvali"))
    }
  }
}
