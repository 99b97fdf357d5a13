import DBus
import Journal
import Loop

/// Has the bus start bluetoothd where it does not run: five seconds after it went, for a service manager may bring it back by
/// itself, then again after twice as long each time, up to five minutes.
///
/// On Debian 12 nothing starts a bluetoothd again that died, and a kernel's fault can kill it
/// (facts: bluez-debian13.md section 1). A bluetoothd that is disabled or masked cannot be started by the bus; one that was
/// only stopped comes back.
@LoopActor
final class DaemonStarter {
  typealias Ask = @LoopActor (_ refused: @escaping @LoopActor (DBusError) -> Void) -> Void

  private let scheduler: any Scheduler
  private let ask: Ask
  private var timer: Registration?
  private var backoff = DaemonStarter.fresh
  /// Whether a failure was told since bluetoothd last ran.
  private var isTold = false
  /// Number of start requests to the bus since bluetoothd last ran.
  private var count = 0

  private static let fresh = Backoff(from: .seconds(5), upTo: .seconds(300))

  /// - Parameter ask: asks the bus, once; it says where the bus cannot.
  init(_ scheduler: any Scheduler, ask: @escaping Ask) {
    self.scheduler = scheduler
    self.ask = ask
  }

  /// Whether bluetoothd will be asked for.
  var isWaiting: Bool { timer != nil }

  /// bluetoothd does not run.
  func begin() {
    guard timer == nil else { return }
    timer = scheduler.schedule(after: backoff.next()) { [weak self] in self?.start() }
  }

  /// bluetoothd runs, or there is no bus.
  func end() {
    timer = nil
  }

  /// bluetoothd runs and answers.
  func succeeded() {
    backoff = Self.fresh
    (isTold, count) = (false, 0)
  }

  private func start() {
    // Where it comes, its name is heard of, and ends this.
    timer = nil
    begin()
    count += 1
    // The first request usually succeeds, and `SituationJournal` then reports the outage.
    if count == 2 { Log.shared.notice("bluetoothd is not running; the bus is asked again to start it") }
    ask { [weak self] error in
      guard let self, !isTold else { return }
      isTold = true
      Log.shared.warning("bluetoothd cannot be started; it is tried again: \(error)", .error(error))
    }
  }
}

extension BusConnection {
  /// Asks the bus to start bluetoothd.
  func startBluetoothDaemon(_ refused: @escaping @LoopActor (DBusError) -> Void) {
    call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "StartServiceByName",
      [.string(BlueZName.service), .uint32(0)], timeout: .seconds(60)
    ) { result in
      if case .failure(let error) = result { refused(error) }
    }
  }
}
