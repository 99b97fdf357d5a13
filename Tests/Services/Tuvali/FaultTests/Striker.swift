import Air
import Common
import Hall
import Loop

/// A filter of the simulated radio that affects one of the packets it inspects, or all from that one on.
@LoopActor
final class Striker {
  /// Whether the filter has affected a packet.
  private(set) var hasStruck = false
  /// Number of packets that the filter has inspected.
  private(set) var count = 0

  private let number: Int
  private let isThroughout: Bool
  private let isLookedAt: @LoopActor (AirPacket) -> Bool
  private let verdict: @LoopActor (AirPacket) -> AirVerdict

  /// - Parameters:
  ///   - number: index of the packet to affect, from 0.
  ///   - throughout: whether it affects all later packets, too.
  init(
    at number: Int, throughout: Bool = false, where isLookedAt: @escaping @LoopActor (AirPacket) -> Bool,
    verdict: @escaping @LoopActor (AirPacket) -> AirVerdict
  ) {
    self.number = number
    isThroughout = throughout
    self.isLookedAt = isLookedAt
    self.verdict = verdict
  }

  func judge(_ packet: AirPacket) -> AirVerdict {
    guard isLookedAt(packet) else { return .deliver }
    defer { count += 1 }
    guard count == number || isThroughout && count > number else { return .deliver }
    hasStruck = true
    return verdict(packet)
  }
}
