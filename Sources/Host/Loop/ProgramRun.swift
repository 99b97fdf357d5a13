import Common
import Glibc

/// Runs of other programs, each with a time limit. Every call waits for the end of the program.
///
/// No shell is involved. A program has a process group of its own: Ctrl-C ends the caller but not the run, which may be
/// storing something. The time limit ends the program with the programs that it has started.
public enum ProgramRun {
  /// The result of a run.
  public enum End: Sendable, Equatable {
    case exited(Int32)
    case signalled(Int32)
    /// The program ran longer than its time limit, and was killed.
    case timedOut
    /// The program could not be started; `errno`.
    case notStarted(Int32)
  }

  /// Maximum interval between checks whether the program has ended, in milliseconds. The interval is 1 ms at the
  /// beginning of a run.
  private static let pollInterval: Int32 = 20

  /// Runs a program. Its standard output goes to standard error.
  ///
  /// - Parameters:
  ///   - program: a path, or a name to be found in `PATH`.
  ///   - arguments: the words after the program's name.
  ///   - input: descriptor of its standard input.
  ///   - isQuiet: drops what the program writes.
  ///   - limit: maximum time of the run.
  public static func run(
    _ program: String, _ arguments: [String] = [], input: Int32, isQuiet: Bool = false, limit: Duration
  ) -> End {
    let (child, failure) = start(program, arguments, input: input, output: nil, isQuiet: isQuiet)
    return failure == 0 ? awaitEnd(of: child, limit) : .notStarted(failure)
  }

  /// The standard output of a program without input; its standard error is dropped.
  ///
  /// - Parameters:
  ///   - program: a path, or a name to be found in `PATH`.
  ///   - arguments: the words after the program's name.
  ///   - maximum: maximum bytes of the output; a program that writes more is killed.
  ///   - limit: maximum time of the run.
  /// - Returns: nil if the program cannot be started, exceeds a limit, or fails.
  public static func output(
    of program: String, _ arguments: [String], upTo maximum: Int, within limit: Duration
  ) -> [UInt8]? {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return nil }
    let (source, target) = (ends[0], ends[1])
    defer { close(source) }
    _ = fcntl(source, F_SETFD, FD_CLOEXEC)
    _ = fcntl(target, F_SETFD, FD_CLOEXEC)
    let deadline = SuspendingClock.now.advanced(by: limit)
    let (child, failure) = start(program, arguments, input: nil, output: target, isQuiet: true)
    close(target)
    guard failure == 0 else { return nil }
    let bytes = collect(source, upTo: maximum, until: deadline)
    let rest = bytes == nil ? Duration.zero : SuspendingClock.now.duration(to: deadline)
    return awaitEnd(of: child, rest) == .exited(0) ? bytes : nil
  }

  /// - Parameters:
  ///   - input: descriptor of the standard input; nil for an empty one.
  ///   - output: descriptor of the standard output; nil for that of standard error.
  /// - Returns: the process, and 0 or `errno`.
  private static func start(
    _ program: String, _ arguments: [String], input: Int32?, output: Int32?, isQuiet: Bool
  ) -> (child: pid_t, failure: Int32) {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let input {
      posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
    } else {
      posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    }
    if isQuiet { posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) }
    posix_spawn_file_actions_adddup2(&actions, output ?? STDERR_FILENO, STDOUT_FILENO)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // The loop blocks the signals that it handles, and the tool ignores SIGPIPE.
    var none = sigset_t()
    var all = sigset_t()
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setpgroup(&attributes, 0)
    posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
    var words = ([program] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var child = pid_t()
    let failure = posix_spawnp(&child, program, &actions, &attributes, &words, environ)
    return (child, failure)
  }

  /// Reads to the end of a pipe; nil if there are more than `maximum` bytes, or at the deadline.
  private static func collect(
    _ source: Int32, upTo maximum: Int, until deadline: SuspendingClock.Instant
  ) -> [UInt8]? {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 14)
    while bytes.count <= maximum {
      let rest = SuspendingClock.now.duration(to: deadline).wholeMilliseconds
      guard rest > 0 else { return nil }
      var request = pollfd(fd: source, events: Int16(POLLIN), revents: 0)
      guard poll(&request, 1, Int32(clamping: rest)) > 0 else { continue }
      let count = read(source, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return nil }
      if count == 0 { return bytes }
      bytes += buffer[..<count]
    }
    return nil
  }

  private static func awaitEnd(of child: pid_t, _ limit: Duration) -> End {
    var status: Int32 = 0
    var interval: Int32 = 1
    let begin = SuspendingClock.now
    while begin.duration(to: .now) < limit {
      let ended = waitpid(child, &status, WNOHANG)
      if ended == child { return end(status) }
      if ended < 0, errno != EINTR { return .notStarted(errno) }
      poll(nil, 0, interval)
      interval = min(interval * 2, pollInterval)
    }
    kill(-child, SIGKILL)
    while waitpid(child, &status, 0) < 0, errno == EINTR {}
    return .timedOut
  }

  /// The result of a run, decoded from a status of `waitpid`, whose macros are not available in Swift.
  private static func end(_ status: Int32) -> End {
    status & 0x7F == 0 ? .exited(status >> 8 & 0xFF) : .signalled(status & 0x7F)
  }
}
