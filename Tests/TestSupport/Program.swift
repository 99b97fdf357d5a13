import Glibc

/// A program that a test starts and ends.
public final class Program: Sendable {
  public struct NotStarted: Error, CustomStringConvertible {
    public let description: String
  }

  public let processID: pid_t

  /// Starts a program that is found by `$PATH`.
  ///
  /// - Parameter passing: descriptors to pass on, by their numbers in the program.
  public init(_ arguments: [String], passing: [Int32: Int32] = [:]) throws {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for (there, here) in passing { posix_spawn_file_actions_adddup2(&actions, here, there) }
    // The program starts without blocked signals. It would inherit those of this thread, and could not be stopped by
    // them.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var words = arguments.map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var processID: pid_t = 0
    let failure = posix_spawnp(&processID, arguments[0], &actions, &attributes, &words, environ)
    guard failure == 0 else {
      throw NotStarted(
        description: "\(arguments[0]) cannot be started: \(strerror(failure).map { String(cString: $0) } ?? "?")")
    }
    self.processID = processID
  }

  /// Sends a signal and waits for the end; to be called once.
  public func end(_ signal: Int32 = SIGTERM) {
    kill(processID, signal)
    _ = wait()
  }

  /// Waits for the end; to be called once, and not with `end`.
  ///
  /// - Returns: the exit status; nil if a signal ended it.
  public func wait() -> Int32? {
    var status: Int32 = 0
    while waitpid(processID, &status, 0) < 0, errno == EINTR {}
    return status & 0x7F == 0 ? status >> 8 & 0xFF : nil
  }
}
