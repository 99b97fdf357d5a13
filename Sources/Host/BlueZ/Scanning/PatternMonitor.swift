import HCI
import Journal
import Loop
import Radio

/// The kernel's advertisement monitor, one for all patterns of the scan. While it exists, the kernel scans passively,
/// without the controller's duplicate filter. It is added again after a start of bluetoothd, after the adapter was off,
/// and when another program has removed it.
///
/// A monitor stays in the kernel after the program that added it has exited. Facts: bluez.md section 13.
@LoopActor
final class PatternMonitor {
  /// A monitor of ours in the kernel.
  private struct Live {
    let index: UInt16
    let handle: UInt16
  }

  private let socket: ManagementSocket
  private let attempts: Attempts
  private var place: Place?
  private var patterns: Set<AdvertisingPattern> = []
  private var live: Live?
  /// Whether a command to the kernel is under way.
  private var isAsking = false
  /// Number of the present attempt to add a monitor. Answers to earlier attempts are ignored.
  private var number = 0
  private var events: Registration?
  private var resting: (@LoopActor () -> Void)?
  private var restLimit: Registration?
  private var removal: Registration?
  private let scheduler: any Scheduler

  /// - Parameter onChange: called when `problem` changed.
  init(_ socket: ManagementSocket, scheduler: any Scheduler, onChange: @escaping @LoopActor () -> Void) {
    self.socket = socket
    self.scheduler = scheduler
    attempts = Attempts(scheduler: scheduler, onChange: onChange)
    attempts.begin = { [weak self] in self?.begin() }
    events = socket.onEvent { [weak self] event, index in
      if case .monitorRemoved(let handle) = event { self?.removed(handle, index) }
    }
  }

  /// The reason why the kernel does not scan for patterns, and what to do; nil if it does, or if there are none.
  var problem: String? { attempts.problem }

  // MARK: Requests

  /// Scans for these patterns from now on; an empty set ends it.
  func listen(for patterns: Set<AdvertisingPattern>) {
    guard patterns != self.patterns else { return }
    self.patterns = patterns
    let target = patterns.isEmpty ? nil : place
    if attempts.place == target { attempts.renew() } else { attempts.aim(at: target) }
  }

  /// Removes the monitor and adds it again, which makes the kernel restart its scan.
  func renew() {
    if attempts.isDone { attempts.renew() }
  }

  func aim(at place: Place?) {
    self.place = place
    attempts.aim(at: patterns.isEmpty ? nil : place)
  }

  /// Ends the scan for patterns, and calls `then` once: when the monitor is removed, at the latest after `limit`.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    listen(for: [])
    guard isAsking || live != nil else { return then() }
    resting = then
    restLimit = scheduler.schedule(after: limit) { [weak self] in self?.rested() }
  }

  private func rested() {
    let resting = resting
    (self.resting, restLimit, removal) = (nil, nil, nil)
    resting?()
  }

  // MARK: Attempts

  private func begin() {
    number += 1
    proceed()
  }

  /// Sends the next command. One command is pending at a time, so a monitor that is no longer needed is removed after
  /// the kernel has returned its handle.
  private func proceed() {
    guard !isAsking else { return }
    if let live {
      remove(live)
    } else if let index = attempts.place?.index {
      add(on: index)
    } else {
      rested()
    }
  }

  private func remove(_ former: Live) {
    isAsking = true
    socket.call(RemoveAdvertisementMonitor(former.handle), on: former.index) { [weak self] result in
      guard let self else { return }
      isAsking = false
      switch result {
      case .failure(.refused(.busy)), .failure(.refused(.failed)), .failure(.refused(.notPowered)):
        notRemoved(from: former.index)
      // A monitor that does not exist need not be removed.
      case .success, .failure:
        live = nil
        proceed()
      }
    }
  }

  /// Handles that the kernel still has the monitor, which must be removed before another one is added. While the scan
  /// is requested, the attempt fails and is repeated. Afterwards the removal is repeated after 100 ms.
  private func notRemoved(from index: UInt16) {
    if attempts.place != nil {
      return attempts.failed(
        attempts.isFresh
          ? nil : "The kernel did not remove an advertisement monitor of hci\(index). The service tries again.")
    }
    guard resting != nil else { return }
    removal = scheduler.schedule(after: .milliseconds(100)) { [weak self] in self?.proceed() }
  }

  private func add(on index: UInt16) {
    attempts.catchUp()
    isAsking = true
    // Sorted patterns give equal commands for equal sets.
    let sorted = patterns.sorted { ($0.type, $0.offset, $0.bytes.count) < ($1.type, $1.offset, $1.bytes.count) }
    socket.call(AddAdvertisementPatternsMonitor(sorted), on: index) { [weak self, number] result in
      guard let self else { return }
      isAsking = false
      if case .success(let handle) = result { live = Live(index: index, handle: handle) }
      if number == self.number { added(result, on: index) } else { proceed() }
    }
  }

  private func added(_ result: Result<UInt16, ManagementSocket.Failure>, on index: UInt16) {
    let adapter = attempts.place?.adapter.lastElement ?? ""
    switch result {
    case .success: attempts.succeeded()
    // bluetoothd will report the change of the adapter.
    case .failure(.refused(.invalidIndex)), .failure(.refused(.notPowered)): attempts.failed()
    case .failure(.refused(.busy)) where attempts.isFresh: attempts.failed()
    case .failure(.closed):
      attempts.failed("The management socket is closed, so no packets are received: systemctl restart earshotd.")
    case .failure(.refused(.noResources)):
      attempts.failed("The kernel has too many advertisement monitors on \(adapter): systemctl restart bluetooth.")
    case .failure(.refused(.unknownCommand)), .failure(.refused(.notSupported)):
      attempts.failed("The kernel does not support advertisement monitors on \(adapter): use Linux 5.10 or newer.")
    case .failure(let failure):
      attempts.failed("The kernel refuses to scan for packets on \(adapter) (\(failure)). The service tries again.")
    }
  }

  /// Handles a monitor that another program removed: for example bluetoothd when it starts.
  private func removed(_ handle: UInt16, _ index: UInt16) {
    guard live?.index == index, live?.handle == handle else { return }
    live = nil
    if attempts.isDone { attempts.undone() }
  }
}
