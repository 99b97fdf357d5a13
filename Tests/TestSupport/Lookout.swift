import Loop

/// Lets tests wait until something is so, at something that tells of each thing that happens there.
@LoopActor
final class Lookout {
  private var lookers: [Int: @LoopActor (String) -> Void] = [:]
  private var lookersSoFar = 0

  /// Waits until `condition` holds, looking at it as each thing happens, and not later: a condition that comes true with nothing told fails
  /// on every machine, not on a slow one only. It may hold no longer when the test goes on.
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
