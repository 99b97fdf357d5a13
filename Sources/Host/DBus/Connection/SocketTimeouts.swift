internal import CDBus
import Loop

/// Implements libdbus's timeouts with the scheduler.
@LoopActor
final class SocketTimeouts {
  private let scheduler: any Scheduler
  private var timers: [OpaquePointer: Registration] = [:]
  var onProgress: @LoopActor () -> Void = {}

  init(_ scheduler: any Scheduler) {
    self.scheduler = scheduler
  }

  /// Starts the timeout, or stops it if libdbus has disabled it.
  func update(_ timeout: OpaquePointer) {
    timers[timeout] = nil
    guard dbus_timeout_get_enabled(timeout) != 0 else { return }
    let interval = Duration.milliseconds(max(1, Int64(dbus_timeout_get_interval(timeout))))
    timers[timeout] = scheduler.schedule(after: interval) { [weak self] in self?.fire(timeout) }
  }

  func remove(_ timeout: OpaquePointer) {
    timers[timeout] = nil
  }

  func removeAll() {
    timers = [:]
  }

  private func fire(_ timeout: OpaquePointer) {
    // A timeout of libdbus repeats until it is removed.
    update(timeout)
    dbus_timeout_handle(timeout)
    onProgress()
  }
}
