import Air
import Common
import Hall
import Loop

/// A filter for an air that strikes at one packet of those it looks at, or at all from that one on.
@LoopActor
final class Striker {
  /// Whether it has struck.
  private(set) var hasStruck = false
  /// Packets that it has looked at.
  private(set) var count = 0

  private let number: Int
  private let isThroughout: Bool
  private let isLookedAt: @LoopActor (AirPacket) -> Bool
  private let verdict: @LoopActor (AirPacket) -> AirVerdict

  /// - Parameters:
  ///   - number: the packet to strike at, from 0.
  ///   - throughout: whether it strikes at all that follow, too.
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
