import CLinux
import Common
import Glibc

/// A thread for work that may hang, on a disk for example: only other work for the same worker waits for it. It does one
/// piece of work after the other, in the order in which they came.
///
/// The thread starts with the first piece and ends with its owner: it still does the pieces that it was given before that,
/// and the loop does not wait for them. It is a thread of our own: those of libdispatch, on which Swift's tasks run, write a
/// line to the journal about each thread whose priority a sandbox keeps them from setting. What a piece of work leaves on its
/// stack is overwritten: parts of keys and of what was decrypted lie there.
@LoopActor
public final class SerialWorker: Offloading {
  private let queue: WorkQueue
  private var isStarted = false

  /// - Parameter name: what the thread is called in `ps -L`, at most 15 bytes of it.
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
    // Where the kernel starts no more threads, the work waits until it does: each further piece, a canary's too, asks again.
    if !isStarted { isStarted = queue.startThread() }
  }
}

/// The work that waits for the thread of a worker.
///
/// `@unchecked Sendable`: `available` is a semaphore, made for several threads; everything else is behind a lock.
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

  /// - Parameter work: a piece of work; nil ends the thread when the thread comes to it.
  func put(_ work: (@Sendable () -> Void)?) {
    entries.withLock { $0.append(work) }
    sem_post(available)
  }

  /// - Returns: false if the kernel starts no more threads.
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
