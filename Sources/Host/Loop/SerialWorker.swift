import CLinux
import Common
import Glibc

/// A thread for work that may block, for example on a disk: only other work for the same worker waits for it. It
/// executes the work in the order of submission.
///
/// The thread starts with the first piece of work and ends with its owner: work that was already submitted is still
/// executed, and the loop does not wait for it. It is not a thread of libdispatch, which runs Swift's tasks:
/// libdispatch logs a line for each thread whose priority a sandbox forbids to set. After each piece of work the stack
/// is overwritten, because it may contain parts of keys and of decrypted data.
@LoopActor
public final class SerialWorker: Offloading {
  private let queue: WorkQueue
  private var isStarted = false

  /// - Parameter name: the thread's name in `ps -L`, truncated to 15 bytes.
  public nonisolated init(_ name: String = "worker") {
    queue = WorkQueue(name)
  }

  deinit {
    if isStarted { queue.put(nil) }
  }

  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    queue.put {
      let value = work()
      EventLoop.shared.soon { then(value) }
    }
    // If the kernel cannot start a thread, the work waits: each further piece, including a canary, tries again.
    if !isStarted { isStarted = queue.startThread() }
  }
}

/// The queue of a worker's thread.
///
/// `@unchecked Sendable`: `available` is a semaphore, which is thread-safe; everything else is protected by a lock.
private final class WorkQueue: @unchecked Sendable {
  private let entries = Locked<[(@Sendable () -> Void)?]>([])
  private let available: UnsafeMutablePointer<sem_t>
  private let name: String

  init(_ name: String) {
    self.name = name
    available = .allocate(capacity: 1)
    available.initialize(to: sem_t())
    sem_init(available, 0, 0)
  }

  deinit {
    sem_destroy(available)
    available.deallocate()
  }

  /// Adds a piece of work.
  ///
  /// - Parameter work: the piece of work; nil ends the thread after the earlier ones.
  func put(_ work: (@Sendable () -> Void)?) {
    entries.withLock { $0.append(work) }
    sem_post(available)
  }

  /// Starts the thread.
  ///
  /// - Returns: false if the kernel cannot start a thread.
  func startThread() -> Bool {
    let box = Unmanaged.passRetained(self)
    var thread = pthread_t()
    let failure = pthread_create(
      &thread, nil,
      { box in
        guard let box else { return nil }
        Unmanaged<WorkQueue>.fromOpaque(box).takeRetainedValue().run()
        return nil
      }, box.toOpaque())
    guard failure == 0 else {
      box.release()
      return false
    }
    pthread_detach(thread)
    return true
  }

  private func run() {
    earshot_name_thread(name)
    while true {
      while sem_wait(available) != 0 {}
      let work = entries.withLock { $0.isEmpty ? nil : $0.removeFirst() }
      guard let work else { return }
      work()
      ProcessMemory.wipeStack()
    }
  }
}

/// Detects a blocked worker: it repeatedly sends an empty piece of work through the worker, and checks whether it
/// completes.
@LoopActor
public final class Canary {
  private let worker: any Offloading
  private let scheduler: any Scheduler
  private let limit: Duration
  private var sent: Instant?

  /// - Parameters:
  ///   - worker: the worker to check.
  ///   - limit: time without completion after which the worker counts as blocked.
  public init(through worker: any Offloading, _ scheduler: any Scheduler, limit: Duration) {
    self.worker = worker
    self.scheduler = scheduler
    self.limit = limit
  }

  /// Sends a canary (an empty job) through the worker, unless one is pending.
  ///
  /// - Returns: false if a canary has been pending for `limit` or longer.
  public func isBack() -> Bool {
    if let sent { return sent.duration(to: scheduler.now) < limit }
    sent = scheduler.now
    worker.offload({}, then: { [weak self] in self?.sent = nil })
    return true
  }
}
