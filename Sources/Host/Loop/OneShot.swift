import Synchronization

/// A closure that can be taken out once.
final class OneShot: Sendable {
  private let body: Mutex<(@LoopActor () -> Void)?>

  init(_ body: @escaping @LoopActor () -> Void) {
    self.body = Mutex(body)
  }

  func take() -> (@LoopActor () -> Void)? {
    body.withLock { body in
      defer { body = nil }
      return body
    }
  }
}
