import Common
import Glibc

/// A thread for work that may hang, on a disk for one: it keeps nobody waiting but what was given to the same worker.
/// One piece is done after the other, in the order in which they came.
///
/// The thread is started with the first piece, and ends with its owner: when that goes, what was given is still done, and
/// nobody waits for it.
@LoopActor
public final class SerialWorker: Offloading {
  private let queue = WorkQueue()
  private var isStarted = false

  public nonisolated init() {}

  deinit {
    if isStarted { queue.put(nil) }
  }

  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    start()
    queue.put {
      let value = work()
      EventLoop.shared.soon { then(value) }
    }
  }

  private func start() {
    guard !isStarted else { return }
    isStarted = true
    // Without a thread of its own the work is done where all other work is.
    if !queue.startThread() { Task.detached { [queue] in queue.run() } }
  }
}

/// What waits for the thread of a worker.
///
/// `@unchecked Sendable`: `available` is a semaphore, made for several threads; everything else is behind a lock.
private final class WorkQueue: @unchecked Sendable {
  private let entries = Locked<[(@Sendable () -> Void)?]>([])
  private let available: UnsafeMutablePointer<sem_t>

  init() {
    available = .allocate(capacity: 1)
    available.initialize(to: sem_t())
    sem_init(available, 0, 0)
  }

  deinit {
    sem_destroy(available)
    available.deallocate()
  }

  /// - Parameter work: nil ends the thread when it comes to it.
  func put(_ work: (@Sendable () -> Void)?) {
    entries.withLock { $0.append(work) }
    sem_post(available)
  }

  /// - Returns: false if there are too many threads.
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

  func run() {
    while true {
      while sem_wait(available) != 0 {}
      let work = entries.withLock { $0.isEmpty ? nil : $0.removeFirst() }
      guard let work else { return }
      work()
    }
  }
}
