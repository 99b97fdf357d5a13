import Tuvali

/// Reason why a phone was refused, for the person at the screen. It does not identify the phone.
public struct WalletRefusal: Hashable, Sendable {
  /// Stable code: `wrongCode`, `busy` or `full`.
  public let code: String
  /// Description and remedy.
  public let sentence: String

  /// Makes the refusal for the error of a session; nil if the verifier did not refuse the wallet.
  init?(_ error: TuvaliError, _ settings: VerifierService.Settings) {
    switch error.reason {
    case .wrongCode: self.init(.wrongCode, settings)
    case .busy: self.init(.busy, settings)
    case .noCapacity: self.init(.full, settings)
    default: return nil
    }
  }

  init(_ reason: VerifierEngine.Refusal, _ settings: VerifierService.Settings) {
    code = reason.rawValue
    sentence =
      switch reason {
      case .wrongCode: "A phone used a code that is no longer shown. Scan the code that is shown now."
      case .busy: "A phone found every session slot or link in use. Try again in a moment."
      case .full: "A phone was refused because there is no capacity for another credential. Ask the operator."
      }
  }
}
