import Bitchat
import Common
import Journal
import Loop

/// Time of day. Phones drop packets that deviate by two minutes, so the node sends none before the clock is known to be
/// right. Facts: bitchat.md section 16.
extension MeshService {
  /// 2026-01-01, in milliseconds since 1970: earlier clocks are wrong.
  private static let earliest: Int64 = 1_767_225_600_000
  /// Interval between checks for a time service, until there is one.
  private static let pause = Duration.seconds(10)

  /// Interval between removals of expired items.
  private static let ageing = Duration.seconds(600)

  func watchClock() {
    clockWatch = clock.onSet { [weak self] in
      self?.handle(.clockSet)
      self?.lookAtClock()
    }
    lookAtClock()
  }

  func lookAtClock() {
    guard isStarted, engine != nil else { return }
    let isTrusted = clock.milliseconds >= Self.earliest && (settings.trustsClock || clock.isSynchronised)
    clockTimer.set(isTrusted ? nil : scheduler.now.advanced(by: Self.pause))
    guard isTrusted != isClockTrusted || state == .stopped else { return }
    isClockTrusted = isTrusted
    handle(.clock(isTrusted: isTrusted))
    age()
  }

  /// Removes expired items from the store. Nothing expires while the clock may be wrong.
  func age() {
    guard isStarted, isClockTrusted else { return ageTimer.set(nil) }
    keeper.age(at: time)
    if erased?.isOver(at: time) == true {
      erased = nil
      engine?.erased = nil
      keeper.forgetErased()
    }
    ageTimer.set(scheduler.now.advanced(by: Self.ageing))
  }

  var clockReason: String {
    clock.milliseconds < Self.earliest
      ? "This machine's clock shows a time before 2026, so phones would drop the node's packets. Set the clock."
      : "This machine's clock is not known to be right: no time service has set it, and no two neighbours' clocks "
        + "agree with it. Start a time service (systemd-timesyncd), or set TrustClock=yes in [Mesh]."
  }
}
