/// How long to wait before the next attempt: half a second, then twice as long each time, up to half a minute; or from and up to
/// other times.
struct Backoff: Sendable {
  private let shortest: Duration
  private let longest: Duration
  private var wait: Duration

  static let shortest = Duration.milliseconds(500)
  static let longest = Duration.seconds(30)

  init(from shortest: Duration = Self.shortest, upTo longest: Duration = Self.longest) {
    self.shortest = shortest
    self.longest = longest
    wait = shortest
  }

  /// The wait before the next attempt; the one after it will be longer.
  mutating func next() -> Duration {
    defer { wait = min(wait * 2, longest) }
    return wait
  }

  /// Whether there was no failure yet.
  var isFresh: Bool { wait == shortest }

  mutating func reset() {
    wait = shortest
  }
}
