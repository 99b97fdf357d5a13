import Common
import Radio

/// One direction of a link, which carries one packet at a time.
struct AirChannel {
  private var freeAt = Instant.zero
  private var sent = 0
  /// A packet that the next one overtakes.
  private var held: AirPacket?

  /// Reserves the time for one more packet.
  ///
  /// - Returns: the time of arrival.
  mutating func reserve(from now: Instant, _ latency: Duration) -> Instant {
    freeAt = max(now, freeAt).advanced(by: latency)
    return freeAt
  }

  mutating func nextNumber() -> Int {
    defer { sent += 1 }
    return sent
  }

  /// Delays a packet until another one overtakes it or it is released; false if a packet is already delayed.
  mutating func hold(_ packet: AirPacket) -> Bool {
    guard held == nil else { return false }
    held = packet
    return true
  }

  /// Returns and removes the delayed packet; with `number`, only if it has that number.
  mutating func release(_ number: Int? = nil) -> AirPacket? {
    guard let packet = held, number == nil || packet.number == number else { return nil }
    held = nil
    return packet
  }
}
