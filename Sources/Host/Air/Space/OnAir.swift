import Common
import Loop
import Radio

/// An advertisement as it is on the air: bytes, repeated at an interval.
@LoopActor
final class OnAir {
  /// The shortest interval that a legacy advertisement may have (Core 5.4 Vol 6 Part B 4.4.2.2).
  static let shortestInterval = Duration.milliseconds(20)

  let node: AirRadio
  let data: [UInt8]
  let scanResponse: [UInt8]
  let interval: Duration
  /// The first advertising event.
  let start: Instant
  /// Whether somebody may not have heard it yet, and the next event is entered in the agenda.
  var isDue = false

  init(node: AirRadio, data: [UInt8], scanResponse: [UInt8], interval: Duration, start: Instant) {
    self.node = node
    self.data = data
    self.scanResponse = scanResponse
    self.interval = max(interval, Self.shortestInterval)
    self.start = start
  }

  /// The first advertising event that is not before `now`.
  func nextEvent(from now: Instant) -> Instant {
    guard now > start else { return start }
    let step = interval.wholeNanoseconds
    let passed = start.duration(to: now).wholeNanoseconds
    return start.advanced(by: .nanoseconds((passed + step - 1) / step * step))
  }
}
