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
  public typealias End = ProgramRun.End

  /// Runs a program with this input. It is called away from the loop, and waits for the end.
  public typealias Run = @Sendable (_ program: String, _ input: [UInt8]) -> End

  /// Maximum time of one run.
  public nonisolated static let timeLimit = Duration.seconds(60)
  /// Maximum events that wait. Beyond it the oldest is dropped and counted, except one whose caller waits for its end.
  static let waitingLimit = 1000
  /// Failures are reported each up to this number, and then each hundredth: a program that is missing or broken fails
  /// for every event.
  private static let reportedFailures = 10

  /// Number of runs that failed.
  public private(set) var failed = 0
  /// Number of events that were dropped, because the program is slower than the events.
  public private(set) var dropped = 0

  private let program: String
  private let worker: any Offloading
  private let execute: Run
  private let complain: @LoopActor (String) -> Void
  /// Events that wait for a run, in order. `then` is called at the end of the run; it is nil if no caller waits.
  private var waiting: [(input: [UInt8], then: (@LoopActor (End) -> Void)?)] = []
  private var isRunning = false
  /// Whether an event was dropped since the queue was last empty. Only the first drop is reported.
  private var isBehind = false
  private let idlers = IdleWaiters()

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

  /// Throws a usage error if the program does not exist or cannot be executed, so that an error in writing is noticed
  /// before the first event.
  public func check() throws(Failure) {
    // Without `$PATH` the default folders of posix_spawnp are searched.
    let path = getenv("PATH").map { String(cString: $0) } ?? "/bin:/usr/bin"
    let candidates = program.contains("/") ? [program] : path.split(separator: ":").map { "\($0)/\(program)" }
    guard candidates.contains(where: Self.isExecutable) else {
      throw Failure(
        .usage, "The program \(PrintableText.clean(program)) of --exec does not exist, or cannot be executed.")
    }
  }

  private nonisolated static func isExecutable(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && access(path, X_OK) == 0
  }

  /// Runs the program for an event, after those for earlier events.
  public func post(_ event: JSONValue) { add(event, then: nil) }

  /// Runs the program for an event, after those for earlier events, and waits for its end.
  public func run(_ event: JSONValue) async -> End {
    await withCheckedContinuation { (continuation: CheckedContinuation<End, Never>) in
      add(event) { continuation.resume(returning: $0) }
    }
  }

  /// Returns when the program has handled all events, or after `timeLimit`.
  public func finish(on scheduler: any Scheduler = EventLoop.shared) async {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      whenFinished(on: scheduler) { continuation.resume() }
    }
  }

  func whenFinished(on scheduler: any Scheduler, then: @escaping @LoopActor () -> Void) {
    guard isRunning || !waiting.isEmpty else { return then() }
    idlers.add(within: Self.timeLimit, on: scheduler) { [weak self] in
      self?.reportRest()
      then()
    }
  }

  private func reportRest() {
    let rest = waiting.count + (isRunning ? 1 : 0)
    if rest > 0 { complain("\(PrintableText.clean(program)) has not handled the last events: \(rest).") }
  }

  /// The failure of a run, for a person.
  public func failure(_ end: End) -> String { "\(PrintableText.clean(program)) \(end.clause)." }

  /// - Parameter then: called at the end of the run; nil for an event that may be dropped.
  func add(_ event: JSONValue, then: (@LoopActor (End) -> Void)?) {
    waiting.append((Array((JSONWriter.write(event) + "\n").utf8), then))
    if waiting.count > Self.waitingLimit, let oldest = waiting.firstIndex(where: { $0.then == nil }) {
      waiting.remove(at: oldest)
      dropped += 1
      // Only the first drop is reported, because a thousand events a second would cause as many lines.
      if !isBehind { complain("\(PrintableText.clean(program)) is too slow: the oldest events are dropped.") }
      isBehind = true
    }
    next()
  }

  private func next() {
    guard !isRunning else { return }
    guard !waiting.isEmpty else {
      if isBehind { complain("\(PrintableText.clean(program)) handles events again. Dropped events: \(dropped).") }
      isBehind = false
      return idlers.callAll()
    }
    isRunning = true
    let (input, then) = waiting.removeFirst()
    worker.offload(
      { [program, execute] in execute(program, input) },
      then: { [weak self] end in
        self?.ended(end)
        then?(end)
        self?.next()
      })
  }

  private func ended(_ end: End) {
    isRunning = false
    guard !end.isSuccess else { return }
    failed += 1
    guard failed <= Self.reportedFailures || failed.isMultiple(of: 100) else { return }
    complain("\(failure(end)) Failed runs: \(failed).")
  }

  // MARK: The system

  /// Runs a program. Its standard input is a sealed memory file, so a program that reads nothing blocks nobody. Its
  /// standard output goes to standard error, because that of the tool is for the events.
  ///
  /// - Parameters:
  ///   - isQuiet: drops what the program writes.
  ///   - limit: maximum time of the run.
  nonisolated static func spawn(
    _ program: String, _ input: [UInt8], isQuiet: Bool = false, limit: Duration = timeLimit
  ) -> End {
    let file: FileDescriptor
    do throws(DBusError) {
      file = try FileDescriptor.sealed(input, name: "event")
    } catch {
      return .notStarted(ENOMEM)
    }
    // The file must stay open until the program has started.
    return withExtendedLifetime(file) { ProgramRun.run(program, input: file.raw, isQuiet: isQuiet, limit: limit) }
  }
}

extension ProgramRun.End {
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
