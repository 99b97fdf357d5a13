import Loop

/// Lets tests wait for a condition on an object that reports its events.
@LoopActor
final class Lookout {
  private var lookers: [Int: @LoopActor (String) -> Void] = [:]
  private var lookersSoFar = 0

  /// Waits until `condition` holds, checking it at each event only: a condition that becomes true without an event
  /// fails on every machine, not on slow ones alone. It may be false again when the test continues.
  func until(_ condition: @escaping @LoopActor () -> Bool) async throws {
    guard !condition() else { return }
    let seen = Mailbox<(event: String, holds: Bool)>()
    lookersSoFar += 1
    let number = lookersSoFar
    lookers[number] = { [weak self] event in
      let holds = condition()
      if holds { self?.lookers[number] = nil }
      seen.put((event, holds))
    }
    defer { lookers[number] = nil }
    _ = try await seen.first { $0.holds }
  }

  func tell(_ event: String) {
    for looker in lookers.values { looker(event) }
  }
}
