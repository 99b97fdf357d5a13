import Bitchat
import Common
import Journal
import Loop

/// Time of day of the node. Phones drop packets that deviate by two minutes, so the node sends none before the clock is
/// trusted. Facts: bitchat.md section 16.
@LoopActor
final class ClockWatch {
  /// Earliest plausible time, 2026-01-01, in milliseconds since 1970. A clock that shows an earlier time is wrong.
  private static let earliest: Int64 = 1_767_225_600_000
  /// Interval between checks whether a time service runs, until one does.
  private static let pause = Duration.seconds(10)
  /// Interval at which items of the store that have expired are removed.
  private static let ageing = Duration.seconds(600)

  private let node: MeshNode
  private var watch: Registration?
  private(set) var isTrusted = false
  private var wasWaiting = false
  private lazy var timer = Deadline(node.scheduler) { [weak self] in self?.look() }
  private lazy var ageTimer = Deadline(node.scheduler) { [weak self] in self?.age() }

  init(_ node: MeshNode) {
    self.node = node
  }

  func start() {
    watch = node.clock.onSet { [weak self] in
      self?.node.handle(.clockSet)
      self?.look()
    }
    look()
  }

  func stop() {
    watch = nil
    timer.set(nil)
    ageTimer.set(nil)
  }

  /// Checks whether the clock is trusted.
  func look() {
    guard node.isStarted, node.engine != nil else { return }
    let clock = node.clock
    let isTrusted = clock.milliseconds >= Self.earliest && (node.settings.trustsClock || clock.isSynchronised)
    timer.set(isTrusted ? nil : node.now.advanced(by: Self.pause))
    guard isTrusted != self.isTrusted || node.state == .stopped else { return }
    self.isTrusted = isTrusted
    node.handle(.clock(isTrusted: isTrusted))
    age()
  }

  /// Removes expired items from the store. Nothing expires while the clock may be wrong.
  private func age() {
    guard node.isStarted, isTrusted else { return ageTimer.set(nil) }
    node.keeper.age(at: node.time)
    node.forgetErased()
    ageTimer.set(node.now.advanced(by: Self.ageing))
  }

  /// Records a changed state of the engine.
  ///
  /// - Returns: whether the node no longer waits for the clock.
  func entered(_ state: MeshEngine.State) -> Bool {
    let isOver = wasWaiting && state != .waitingForClock
    wasWaiting = state == .waitingForClock
    if wasWaiting, node.isStarted {
      Log.shared.warning("\(Self.reason(node.clock))", id: .meshClock, .protocolName("bitchat"))
    }
    return isOver
  }

  /// Reason why the node waits for the clock, in a sentence.
  static func reason(_ clock: any WallClock) -> String {
    clock.milliseconds < earliest
      ? "This machine's clock shows a time before 2026, so phones would drop the node's packets. Set the clock."
      : "This machine's clock is not known to be right: no time service has set it, and no two neighbours' clocks "
        + "agree with it. Start a time service (systemd-timesyncd), or set TrustClock=yes in [Mesh]."
  }
}
