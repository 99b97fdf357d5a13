/// A program's exit status, for scripts.
public enum ExitCode: Int32, Sendable, CaseIterable {
  /// The command succeeded.
  case ok = 0
  /// The command failed; standard error gives the reason.
  case failed = 1
  /// The command line is invalid.
  case usage = 2
  /// The service does not run.
  case notRunning = 3
  /// The service runs but denies access to this user.
  case denied = 4
  /// The service or the peer did not answer in time.
  case timeout = 5
  /// The peer received the data, but did not report whether it accepts or rejects it.
  case undecided = 6
  /// Standard output or a file could not be written.
  case notWritten = 7
  /// No message bus can be reached at the address.
  case noBus = 8

  /// A short description for the help text.
  public var meaning: String {
    switch self {
    case .ok: "done"
    case .failed: "failed"
    case .usage: "usage"
    case .notRunning: "the service is not running"
    case .denied: "access denied"
    case .timeout: "no answer within the time limit"
    case .undecided: "sent, but no verdict received"
    case .notWritten: "output cannot be written"
    case .noBus: "no bus at this address"
    }
  }
}
