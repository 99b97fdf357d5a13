import Common
import DBus
import Loop

/// Watches whether bluetoothd answers, while the service serves or scans.
///
/// Any message from bluetoothd is a sign of life. After `Pace.rest` without one, bluetoothd is pinged (D-Bus `Ping`,
/// which libdbus answers as soon as bluetoothd reads its bus). A bluetoothd that does not answer within `Pace.patience`
/// counts as unresponsive, and is pinged again until any message arrives. Links and registrations stay, because a
/// bluetoothd that resumes still has them.
@LoopActor
public final class DaemonPulse {
  /// Times that determine when bluetoothd is pinged, and when it counts as unresponsive.
  public struct Pace: Sendable {
    /// Time without a message from bluetoothd before it is pinged.
    public var rest = Duration.seconds(4)
    /// Time after a ping within which bluetoothd must answer.
    public var patience = Duration.seconds(3)
    /// Extra time before bluetoothd counts as unresponsive. If this process is late, the answer may already be in its
    /// own socket.
    public var grace = Duration.milliseconds(250)

    public init() {}
  }

  /// False while bluetoothd does not answer.
  private(set) var isAnswering = true

  private enum Phase {
    case idle
    case resting
    case asking
  }

  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let pace: Pace
  private let onChange: @LoopActor () -> Void
  private var owner: String?
  private var phase = Phase.idle
  private var lastHeard = Instant.zero
  private var timer: Registration?

  /// Timeout of the D-Bus call `Ping` itself, which is longer than `Pace.patience`.
  private static let callLimit = Duration.seconds(30)

  /// - Parameter onChange: called when `isAnswering` changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, pace: Pace = Pace(), onChange: @escaping @LoopActor () -> Void
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.pace = pace
    self.onChange = onChange
  }

  /// Watches the bluetoothd with this unique name; nil ends the watch.
  func watch(_ owner: String?) {
    guard owner != self.owner else { return }
    self.owner = owner
    (phase, timer) = (.idle, nil)
    if owner != nil {
      heard()
      rest()
    }
    show(isAnswering: true)
  }

  /// Records a message from bluetoothd. Every write of a client calls this.
  func heard() {
    lastHeard = scheduler.now
    guard phase == .asking else { return }
    rest()
    show(isAnswering: true)
  }

  /// Schedules the next check. Messages do not reschedule the timer: when it fires, it looks at the time of the last
  /// one.
  private func rest() {
    phase = .resting
    timer = scheduler.schedule(at: lastHeard.advanced(by: pace.rest)) { [weak self] in
      guard let self else { return }
      if scheduler.now < lastHeard.advanced(by: pace.rest) { rest() } else { ask() }
    }
  }

  private func ask() {
    guard let owner else { return }
    phase = .asking
    timer = scheduler.schedule(after: pace.patience) { [weak self] in self?.doubt() }
    bus.call(owner, .root, BlueZName.peer, "Ping", timeout: Self.callLimit) { [weak self] result in
      guard let self, self.owner == owner else { return }
      if case .failure(let error) = result, error.is(.noReply) || error.is(.timeout) || error.is(.disconnected) {
        return
      }
      heard()
    }
  }

  /// Handles messages that arrived while this process was not scheduled. Only then does bluetoothd count as
  /// unresponsive.
  private func doubt() {
    timer = scheduler.schedule(after: pace.grace) { [weak self] in
      self?.ask()
      self?.show(isAnswering: false)
    }
  }

  private func show(isAnswering: Bool) {
    guard isAnswering != self.isAnswering else { return }
    self.isAnswering = isAnswering
    onChange()
  }
}
