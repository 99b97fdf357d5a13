import Common

/// When a node on a battery listens for neighbours: 2 s of 30, and all the time for 10 s after somebody has said something. A value.
struct ScanDuty: Sendable {
  static let window = Duration.seconds(2)
  static let period = Duration.seconds(30)
  static let afterTraffic = Duration.seconds(10)

  /// When the first window began; nil before it.
  private var beganAt: Instant?
  private var busyUntil = Instant.zero

  /// Somebody has said something, or passes something on.
  mutating func traffic(at now: Instant) { busyUntil = max(busyUntil, now.advanced(by: Self.afterTraffic)) }

  /// Whether it listens now, and when that may change.
  mutating func look(at now: Instant) -> (isListening: Bool, next: Instant) {
    let began = beganAt ?? now
    beganAt = began
    // The period that it is in.
    let elapsed = began.duration(to: now).wholeNanoseconds
    let start = began.advanced(by: Self.period * Int(elapsed / Self.period.wholeNanoseconds))
    let end = start.advanced(by: Self.window)
    if now < end { return (true, max(end, busyUntil)) }
    if now < busyUntil { return (true, busyUntil) }
    return (false, start.advanced(by: Self.period))
  }
}
