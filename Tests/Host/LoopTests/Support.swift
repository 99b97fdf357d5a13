import Common
import Loop
import TestSupport

/// Runs a test on the loop.
func onLoop<Value: Sendable>(_ body: @LoopActor @Sendable () async throws -> Value) async rethrows -> Value {
  EventLoop.shared.runInBackground()
  return try await body()
}

/// Resumes when `start` has called its argument.
@LoopActor
func called(_ start: (@escaping @LoopActor () -> Void) -> Void) async {
  await withCheckedContinuation { continuation in
    start { continuation.resume() }
  }
}

@LoopActor
final class Notes {
  nonisolated init() {}

  var lines: [String] = []
}

/// A scheduler with a manual clock that counts the requested timers.
@LoopActor
final class HandTime: Scheduler {
  private(set) var now = Instant.zero
  private(set) var timersSet = 0
  private var timers: [(at: Instant, id: Int, body: @LoopActor () -> Void)] = []

  private var lastID = 0

  var timersLeft: Int { timers.count }

  func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration {
    timersSet += 1
    let id = enter(at: instant, body)
    return Registration { [weak self] in self?.timers.removeAll { $0.id == id } }
  }

  /// Runs `body` when the test next advances the time.
  func soon(_ body: @escaping @LoopActor () -> Void) {
    enter(at: now, body)
  }

  @discardableResult
  private func enter(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Int {
    lastID += 1
    timers.append((instant, lastID, body))
    return lastID
  }

  func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    then(work())
  }

  func set(to seconds: Int) {
    now = Instant.zero.advanced(by: .seconds(seconds))
    while let next = timers.filter({ $0.at <= now }).min(by: { $0.at < $1.at }) {
      timers.removeAll { $0.id == next.id }
      next.body()
    }
  }
}
