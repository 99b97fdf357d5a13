import Glibc

/// A value that several threads share. One thread at a time has access, inside `withLock`.
///
/// The lock is a `pthread_mutex_t` and not `Synchronization.Mutex`, whose futex ThreadSanitizer cannot see: it would
/// report a race in every section. It is not recursive: `withLock` inside `withLock` of the same object never returns.
///
/// `@unchecked Sendable`: no thread owns `value`; only the thread that holds `mutex` touches it, in `withLock`.
public final class Locked<Value: Sendable>: @unchecked Sendable {
  /// The mutex is on the heap, because its address must not change.
  @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
  @usableFromInline var value: Value

  public init(_ value: Value) {
    self.value = value
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    let failure = pthread_mutex_init(mutex, nil)
    precondition(failure == 0, "no lock: pthread_mutex_init returned \(failure)")
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deinitialize(count: 1)
    mutex.deallocate()
  }

  /// Waits until no other thread has access, and passes the value to `body` to read and change.
  ///
  /// - Throws: what `body` throws; the value stays as `body` left it.
  @inlinable
  public func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body(&value)
  }
}
