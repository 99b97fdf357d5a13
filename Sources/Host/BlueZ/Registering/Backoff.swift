/// How long to wait before the next attempt: half a second, then twice as long each time, up to half a minute.
struct Backoff: Sendable {
  private var wait = Backoff.shortest

  static let shortest = Duration.milliseconds(500)
  static let longest = Duration.seconds(30)

  /// The wait before the next attempt; the one after it will be longer.
  mutating func next() -> Duration {
    defer { wait = min(wait * 2, Self.longest) }
    return wait
  }

  /// Whether there was no failure yet.
  var isFresh: Bool { wait == Self.shortest }

  mutating func reset() {
    wait = Self.shortest
  }
}
