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
}
