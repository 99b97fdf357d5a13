import Common

/// A transfer in `earshot verifier watch`: its properties on the bus, and the stage of its handling.
struct WatchedTransfer: Sendable, Equatable {
  enum Stage: Sendable, Equatable {
    /// It was received before the command began, and is taken only on request; or it could not be stored.
    case left
    /// The credential is on its way to the service.
    case underWay
    /// It has to be fetched.
    case queued
    /// It is being fetched and stored.
    case taking
    /// It was reported. Its verdict is awaited, if there is none yet.
    case told
    /// This command's verdict is on its way to the service.
    case judging
    /// Nothing more is to be done about it.
    case done
  }

  var view: TransferView
  var stage: Stage
  /// When it was first seen.
  let seen: Instant
  /// The claims of the credential as JSON, as the checker allows them; nil if there are none or they were not fetched.
  var claims: String?
  /// Whether the checker's verdict is to be reported as soon as the credential was.
  var hasUntoldCheck = false
  /// The verdict that this command has to give.
  var verdict: Verdict?

  /// Whether an operator can judge it.
  var awaitsVerdict: Bool { view.state == "received" && stage != .judging }
}
