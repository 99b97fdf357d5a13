import Glibc
import Loop

extension EventLoop {
  /// Starts a thread that runs `EventLoop.shared` until the process ends. A second call has no effect.
  public func runInBackground() { _ = background }
}

private let background: Void = {
  var thread = pthread_t()
  pthread_create(
    &thread, nil,
    { _ in
      // Without the loop, all code that waits for it would block forever without an error.
      guard EventLoop.shared.run() else { preconditionFailure("the kernel ended the event loop") }
      return nil
    }, nil)
}()
