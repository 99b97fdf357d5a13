import Common

/// Transfer in `earshot verifier watch`: its D-Bus properties, and the stage of its handling.
struct WatchedTransfer: Sendable, Equatable {
  enum Stage: Sendable, Equatable {
    /// Received before the command began, and fetched only on request; or could not be stored.
    case left
    /// The credential is being sent to the service.
    case underWay
    /// The credential must be fetched.
    case queued
    /// The credential is being fetched and stored.
    case taking
    /// The credential was reported. It waits for a verdict, if there is none.
    case told
    /// This command's verdict is being sent to the service.
    case judging
    /// Handling has ended.
    case done
  }

  var view: TransferView
  var stage: Stage
  /// When it was first seen.
  let seen: Instant
  /// Claims of the credential as JSON, as the checker allows them; nil if there are none or they were not fetched.
  var claims: String?
  /// Whether the checker's verdict must be reported right after the credential.
  var hasUntoldCheck = false
  /// Verdict that this command must send.
  var verdict: Verdict?

  /// Whether an operator can judge the credential.
  var awaitsVerdict: Bool { view.state == "received" && stage != .judging }
}
