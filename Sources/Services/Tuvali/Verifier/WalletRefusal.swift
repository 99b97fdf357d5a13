import Tuvali

/// Why a phone was refused, for the person in front of the screen. It does not identify the phone.
public struct WalletRefusal: Hashable, Sendable {
  /// A stable word: `wrongCode`, `busy` or `full`.
  public let code: String
  /// What happened and what to do.
  public let sentence: String

  init(_ reason: VerifierEngine.Refusal, _ settings: VerifierService.Settings) {
    code = reason.rawValue
    sentence =
      switch reason {
      case .wrongCode: "A phone used a code that is no longer shown. Scan the code that is shown now."
      case .busy: "All \(settings.engine.visitors) session slots are in use. Try again when a transfer has ended."
      case .full: "There is no capacity for another credential. Try again when the operator has judged one."
      }
  }
}
