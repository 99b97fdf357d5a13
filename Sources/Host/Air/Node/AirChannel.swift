import Common
import Radio

/// One direction of a link: packets go one after the other.
struct AirChannel {
  private var freeAt = Instant.zero
  private var sent = 0
  /// A packet that lets the next one pass.
  private var held: AirPacket?

  /// Takes the time that one more packet needs.
  ///
  /// - Returns: when it arrives.
  mutating func reserve(from now: Instant, _ latency: Duration) -> Instant {
    freeAt = max(now, freeAt).advanced(by: latency)
    return freeAt
  }

  mutating func nextNumber() -> Int {
    defer { sent += 1 }
    return sent
  }

  /// Keeps a packet back, until another passes or it is released; false when one is kept already.
  mutating func hold(_ packet: AirPacket) -> Bool {
    guard held == nil else { return false }
    held = packet
    return true
  }

  /// Lets go of the packet that was held back; only if it is number `number`, where that is given.
  mutating func release(_ number: Int? = nil) -> AirPacket? {
    guard let packet = held, number == nil || packet.number == number else { return nil }
    held = nil
    return packet
  }
}
