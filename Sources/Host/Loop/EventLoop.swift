import CLinux
import CSystemdEvent
import Common
import Glibc

/// The process's event loop (sd-event), as a Swift executor: jobs that are isolated to `LoopActor` run here, in the
/// order of `enqueue`.
///
/// `@unchecked Sendable`: only the loop's thread uses `event`; everything else is protected by the lock of `inbox`.
public final class EventLoop: SerialExecutor, @unchecked Sendable {
  public static let shared = EventLoop()

  private enum Entry {
    case job(UnownedJob)
    case closure(@LoopActor () -> Void)
  }

  private struct Inbox {
    var entries: [Entry] = []
    var thread: pthread_t?
    var wakeSent = false
    var stopped = false
  }

  private let event: OpaquePointer
  private let wakeDescriptor: Int32
  private let inbox = Locked(Inbox())
  let computing = SerialWorker("computing")

  private init() {
    var event: OpaquePointer?
    let made = sd_event_new(&event)
    let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    // The program cannot work without an event loop and its wake-up descriptor. No input can cause this failure.
    guard let event, made >= 0, descriptor >= 0 else { preconditionFailure("the kernel refused an event loop") }
    self.event = event
    self.wakeDescriptor = descriptor
    sd_event_add_io(event, nil, descriptor, UInt32(EPOLLIN.rawValue), drainWakeups, nil)
  }

  // MARK: Running

  /// Runs the loop on this thread until `stop()`.
  ///
  /// - Returns: false if the kernel reported an error before that.
  @discardableResult
  public func run() -> Bool {
    inbox.withLock {
      precondition($0.thread == nil, "the loop runs already")
      $0.thread = pthread_self()
      $0.stopped = false
    }
    while runEntries() {
      let idle = inbox.withLock { $0.entries.isEmpty && !$0.stopped }
      if sd_event_run(event, idle ? UInt64.max : 0) < 0 { break }
    }
    return inbox.withLock { inbox in
      inbox.thread = nil
      return inbox.stopped
    }
  }

  /// Ends `run()` after the entries that are already queued.
  public func stop() {
    inbox.withLock { $0.stopped = true }
    wake()
  }

  /// Whether the caller is on the loop's thread.
  public var isCurrent: Bool {
    inbox.withLock { $0.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
  }

  private func runEntries() -> Bool {
    let entries = inbox.withLock { inbox in
      defer { inbox.entries = [] }
      return inbox.entries
    }
    for entry in entries {
      switch entry {
      case .job(let job): job.runSynchronously(on: asUnownedSerialExecutor())
      case .closure(let body): LoopActor.assumeIsolated(body)
      }
    }
    return inbox.withLock { !$0.stopped || !$0.entries.isEmpty }
  }

  // MARK: Queueing

  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    enter(.job(job))
  }

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }

  public func checkIsolated() {
    precondition(isCurrent, "not on the event loop's thread")
  }

  /// Calls `body` on the loop, after all entries that are already queued. Any thread may call this.
  public func soon(_ body: @escaping @LoopActor () -> Void) {
    enter(.closure(body))
  }

  private func enter(_ entry: Entry) {
    let mustWake = inbox.withLock { inbox in
      inbox.entries.append(entry)
      if let thread = inbox.thread, pthread_equal(thread, pthread_self()) != 0 { return false }
      defer { inbox.wakeSent = true }
      return !inbox.wakeSent
    }
    if mustWake { wake() }
  }

  private func wake() {
    var one: UInt64 = 1
    _ = write(wakeDescriptor, &one, 8)
  }

  fileprivate func takeWakeup() {
    // The descriptor is drained before the flag is cleared. In the reverse order, a wakeup between the two would be
    // drained but still count as sent, and no other would follow. An entry between the two without a wakeup runs in
    // this iteration.
    var count: UInt64 = 0
    _ = read(wakeDescriptor, &count, 8)
    inbox.withLock { $0.wakeSent = false }
  }

  /// The sd-event handle, for the sources in this target.
  @LoopActor var handle: OpaquePointer { event }
}

private func drainWakeups(
  _: OpaquePointer?, _: Int32, _: UInt32, _: UnsafeMutableRawPointer?
) -> Int32 {
  EventLoop.shared.takeWakeup()
  return 0
}

/// The actor of all state of the process: services, radios and the bus run on it, on the event loop's thread.
@globalActor
public actor LoopActor {
  public static let shared = LoopActor()

  public nonisolated var unownedExecutor: UnownedSerialExecutor {
    EventLoop.shared.asUnownedSerialExecutor()
  }

  /// Runs `body` on the loop and returns its result. Nothing else runs on the loop during one `run`.
  public static func run<Value: Sendable>(
    _ body: @LoopActor @Sendable () throws -> Value
  ) async rethrows -> Value {
    try await body()
  }

  /// Calls `body` immediately, isolated to the actor. It is for C callbacks on the loop's thread.
  ///
  /// - Precondition: the caller is on the loop's thread.
  public static func assumeIsolated<Value>(_ body: @LoopActor () throws -> Value) rethrows -> Value {
    // The runtime's own check is equivalent but slower, and this runs whenever a descriptor is ready.
    precondition(EventLoop.shared.isCurrent, "called from outside the event loop's thread")
    typealias Plain = () throws -> Value
    // The isolation is only a part of the closure's type; the line above has checked it.
    return try withoutActuallyEscaping(body) { try unsafeBitCast($0, to: Plain.self)() }
  }
}
