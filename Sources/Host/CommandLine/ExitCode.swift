/// What a program's exit status says to a script.
public enum ExitCode: Int32, Sendable, CaseIterable {
  /// It is done.
  case ok = 0
  /// It could not be done; standard error says why.
  case failed = 1
  /// The command line makes no sense.
  case usage = 2
  /// The service does not run.
  case notRunning = 3
  /// The service runs but does not let this user.
  case denied = 4
  /// The service or the peer did not answer in time.
  case timeout = 5
  /// What was sent arrived, and the other side said neither yes nor no.
  case undecided = 6
  /// Standard output or a file could not be written.
  case notWritten = 7
  /// There is no bus at the address.
  case noBus = 8

  /// What it says, a few words for the help text.
  public var meaning: String {
    switch self {
    case .ok: "done"
    case .failed: "failed"
    case .usage: "usage"
    case .notRunning: "the service is not running"
    case .denied: "not allowed"
    case .timeout: "no answer in time"
    case .undecided: "sent, and no verdict came"
    case .notWritten: "output cannot be written"
    case .noBus: "no bus at this address"
    }
  }
}
