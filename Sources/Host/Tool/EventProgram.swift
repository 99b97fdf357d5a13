import CommandLine
import Common
import DBus
import Glibc
import Loop

/// The program of `--exec`, which runs once for each event, with the event as JSON on its standard input.
///
/// One run follows the other, in the order of the events. The program has no arguments, and no shell is involved, so no
/// text of a peer is ever a command.
@LoopActor
public final class EventProgram {
  /// The result of a run.
  public enum End: Sendable, Equatable {
    case exited(Int32)
    case signalled(Int32)
    /// The program ran longer than `timeLimit`, and was killed.
    case timedOut
    /// The program could not be started; `errno`.
    case notStarted(Int32)

    /// Whether the program has handled the event.
    public var isSuccess: Bool { self == .exited(0) }

    /// A clause about a failure: `ended with status 3`.
    public var clause: String {
      switch self {
      case .exited(let status): "ended with status \(status)"
      case .signalled(let signal): "was ended by signal \(signal)"
      case .timedOut: "ran longer than \(EventProgram.timeLimit.components.seconds) s, and was killed"
      case .notStarted(let error): "cannot be started: \(String(cString: strerror(error)))"
      }
    }
  }

  /// Runs a program with this input. It is called away from the loop, and waits for the end.
  public typealias Run = @Sendable (_ program: String, _ input: [UInt8]) -> End

  /// Maximum time of one run.
  public nonisolated static let timeLimit = Duration.seconds(60)
  /// Maximum events that wait. Beyond it the oldest is dropped and counted.
  static let waitingLimit = 1000

  /// Number of runs that failed.
  public private(set) var failed = 0
  /// Number of events that were dropped, because the program is slower than the events.
  public private(set) var dropped = 0

  private let program: String
  private let worker: any Offloading
  private let execute: Run
  private let complain: @LoopActor (String) -> Void
  private var waiting: [(input: [UInt8], then: @LoopActor (End) -> Void)] = []
  private var isRunning = false

  /// - Parameters:
  ///   - program: a path, or a name to be found in `PATH`.
  ///   - isQuiet: drops what the program writes, because the terminal shows a screen.
  ///   - run: runs the program; nil for a real one.
  ///   - complain: reports a failure to a person.
  public init(
    _ program: String, isQuiet: Bool = false, worker: any Offloading = SerialWorker("exec"), run: Run? = nil,
    complain: @escaping @LoopActor (String) -> Void = { Output.complain($0) }
  ) {
    (self.program, self.worker, self.complain) = (program, worker, complain)
    execute = run ?? { program, input in EventProgram.spawn(program, input, isQuiet: isQuiet) }
  }

  /// The program of a command line; nil without `--exec`.
  public convenience init?(_ line: ParsedCommand) {
    guard let program = line.value("exec") else { return nil }
    self.init(program)
  }

  /// The option of each command that runs a program.
  ///
  /// - Parameter what: completes "Run this program for …".
  public nonisolated static func option(_ what: String) -> Option {
    Option(
      "exec", value: .file("PROGRAM"), "Run this program for \(what), with a JSON object on its standard input.")
  }

  /// Runs the program for an event, after those for earlier events.
  public func post(_ event: JSONValue) { add(event) { _ in } }

  /// Runs the program for an event, after those for earlier events, and waits for its end.
  public func run(_ event: JSONValue) async -> End {
    await withCheckedContinuation { (continuation: CheckedContinuation<End, Never>) in
      add(event) { continuation.resume(returning: $0) }
    }
  }

  /// The failure of a run, for a person.
  public func failure(_ end: End) -> String { "\(PrintableText.clean(program)) \(end.clause)." }

  private func add(_ event: JSONValue, then: @escaping @LoopActor (End) -> Void) {
    waiting.append((Array((JSONWriter.write(event) + "\n").utf8), then))
    if waiting.count > Self.waitingLimit {
      dropped += 1
      waiting.removeFirst().then(.timedOut)
      complain("\(PrintableText.clean(program)) is too slow: \(dropped) events were dropped.")
    }
    next()
  }

  private func next() {
    guard !isRunning, !waiting.isEmpty else { return }
    isRunning = true
    let (input, then) = waiting.removeFirst()
    worker.offload(
      { [program, execute] in execute(program, input) },
      then: { [weak self] end in
        self?.ended(end)
        then(end)
        self?.next()
      })
  }

  private func ended(_ end: End) {
    isRunning = false
    guard !end.isSuccess else { return }
    failed += 1
    complain("\(failure(end)) Failed runs: \(failed).")
  }

  // MARK: The system

  /// Interval in which the end of the program is looked for, in milliseconds.
  private nonisolated static let pollInterval: Int32 = 20

  /// Runs a program. Its standard input is a sealed memory file, so a program that reads nothing blocks nobody. Its
  /// standard output goes to standard error, because that of the tool is for the events.
  ///
  /// - Parameter isQuiet: drops what the program writes.
  nonisolated static func spawn(_ program: String, _ input: [UInt8], isQuiet: Bool = false) -> End {
    let file: FileDescriptor
    do throws(DBusError) {
      file = try FileDescriptor.sealed(input, name: "event")
    } catch {
      return .notStarted(ENOMEM)
    }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, file.raw, STDIN_FILENO)
    if isQuiet { posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) }
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO)
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
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    var words = [strdup(program), nil]
    defer { for word in words { free(word) } }
    var child = pid_t()
    let failure = posix_spawnp(&child, program, &actions, &attributes, &words, environ)
    guard failure == 0 else { return .notStarted(failure) }
    return awaitEnd(of: child)
  }

  private nonisolated static func awaitEnd(of child: pid_t) -> End {
    var status: Int32 = 0
    var left = Int(timeLimit.components.seconds) * 1000 / Int(pollInterval)
    while left > 0 {
      let ended = waitpid(child, &status, WNOHANG)
      if ended == child { return end(status) }
      if ended < 0, errno != EINTR { return .notStarted(errno) }
      poll(nil, 0, pollInterval)
      left -= 1
    }
    kill(child, SIGKILL)
    while waitpid(child, &status, 0) < 0, errno == EINTR {}
    return .timedOut
  }

  /// The end for a status of `waitpid`, whose macros are not available in Swift.
  private nonisolated static func end(_ status: Int32) -> End {
    status & 0x7F == 0 ? .exited(status >> 8 & 0xFF) : .signalled(status & 0x7F)
  }
}
