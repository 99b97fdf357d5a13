import Common

/// Scan times on battery: 2 s of every 30 s, and continuously for 10 s after traffic.
struct ScanDuty: Sendable {
  static let window = Duration.seconds(2)
  static let period = Duration.seconds(30)
  static let afterTraffic = Duration.seconds(10)

  /// Start of the first window; nil before it.
  private var beganAt: Instant?
  private var busyUntil = Instant.zero

  /// Records traffic.
  mutating func traffic(at now: Instant) { busyUntil = max(busyUntil, now.advanced(by: Self.afterTraffic)) }

  /// Whether to scan now, and when that may change.
  mutating func look(at now: Instant) -> (isListening: Bool, next: Instant) {
    let began = beganAt ?? now
    beganAt = began
    // Start of the current period.
    let elapsed = began.duration(to: now).wholeNanoseconds
    let start = began.advanced(by: Self.period * Int(elapsed / Self.period.wholeNanoseconds))
    let end = start.advanced(by: Self.window)
    if now < end { return (true, max(end, busyUntil)) }
    if now < busyUntil { return (true, busyUntil) }
    return (false, start.advanced(by: Self.period))
  }
}
