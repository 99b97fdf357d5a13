/// A handle of a timer, a watched descriptor, an advertisement, a bus object or similar. `cancel()`, or releasing the
/// last reference, removes it; further calls have no effect.
public final class Registration: Sendable {
  private let takeDown: OneShot

  /// - Parameter takeDown: called once, on the loop.
  public nonisolated init(_ takeDown: @escaping @LoopActor () -> Void) {
    self.takeDown = OneShot(takeDown)
  }

  @LoopActor
  public func cancel() {
    takeDown.take()?()
  }

  deinit {
    guard let body = takeDown.take() else { return }
    if EventLoop.shared.isCurrent {
      LoopActor.assumeIsolated(body)
    } else {
      EventLoop.shared.soon(body)
    }
  }
}
