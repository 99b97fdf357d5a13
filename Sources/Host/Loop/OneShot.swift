import Common

/// A closure that can be taken only once.
final class OneShot: Sendable {
  private let body: Locked<(@LoopActor () -> Void)?>

  init(_ body: @escaping @LoopActor () -> Void) {
    self.body = Locked(body)
  }

  func take() -> (@LoopActor () -> Void)? {
    body.withLock { body in
      defer { body = nil }
      return body
    }
  }
}
