import Common
import DBus
import Loop

/// Whether bluetoothd answers, while something is wanted of it.
///
/// Any message from bluetoothd is a sign of life. After `Pace.rest` without one, bluetoothd is called (`Ping`, which
/// libdbus answers as soon as bluetoothd reads its bus). A bluetoothd that does not answer within `Pace.patience` stands
/// still; it is called again and again until it shows a sign of life. Nothing ends over it: a bluetoothd that goes on
/// still has its links and registrations.
@LoopActor
public final class DaemonPulse {
  /// Times between two looks.
  public struct Pace: Sendable {
    /// Without a sign of life, until bluetoothd is called.
    public var rest = Duration.seconds(4)
    /// How long the answer may take.
    public var patience = Duration.seconds(3)
    /// How long an answer may lie in this program's own socket, where this program is late itself.
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

  /// How long the bus keeps a call whose answer does not come.
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

  /// Looks after the bluetoothd with this unique name from now on; after none with nil.
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

  /// bluetoothd has sent something. This is called with every write of a client.
  func heard() {
    lastHeard = scheduler.now
    guard phase == .asking else { return }
    rest()
    show(isAnswering: true)
  }

  /// The timer is not set anew with each message: it looks when the last one came.
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

  /// Messages that arrived while this process was not running are handled before bluetoothd counts as unresponsive.
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
