import Common
import DBus
import Journal
import Loop

/// Asks the bus to start bluetoothd if it does not run. The first request follows 5 s after bluetoothd stopped, because
/// a service manager may restart it; then the pauses double up to 5 min.
///
/// On Debian 12 no service restarts a bluetoothd that crashed, and a kernel fault can kill it (facts: bluez-debian13.md
/// section 1). The bus cannot start a bluetoothd that is disabled or masked; it does start one that was only stopped.
@LoopActor
final class DaemonStarter {
  typealias Ask = @LoopActor (_ refused: @escaping @LoopActor (DBusError) -> Void) -> Void

  private let scheduler: any Scheduler
  private let ask: Ask
  private var timer: Registration?
  private var backoff = DaemonStarter.fresh
  /// Whether a failure was reported since bluetoothd last ran.
  private var isTold = false
  /// Number of start requests to the bus since bluetoothd last ran.
  private var count = 0

  private static let fresh = Backoff(from: .seconds(5), upTo: .seconds(300))

  /// - Parameter ask: sends one request to the bus, and calls its argument if the bus refuses.
  init(_ scheduler: any Scheduler, ask: @escaping Ask) {
    self.scheduler = scheduler
    self.ask = ask
  }

  /// Schedules the first request, because bluetoothd does not run.
  func begin() {
    guard timer == nil else { return }
    timer = scheduler.schedule(after: backoff.next()) { [weak self] in self?.start() }
  }

  /// Cancels the requests, because bluetoothd runs, or because there is no bus.
  func end() {
    timer = nil
  }

  /// Resets pauses and counts, because bluetoothd runs and answers.
  func succeeded() {
    backoff = Self.fresh
    (isTold, count) = (false, 0)
  }

  private func start() {
    // If bluetoothd starts, its name appears on the bus, and that ends the requests.
    timer = nil
    begin()
    count += 1
    // The first request usually succeeds, and `SituationJournal` then reports the outage.
    if count == 2 { Log.shared.notice("bluetoothd is not running; the service asks the bus again to start it") }
    ask { [weak self] error in
      guard let self, !isTold else { return }
      isTold = true
      Log.shared.warning("The bus cannot start bluetoothd; the service asks again later: \(error)", .error(error))
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
