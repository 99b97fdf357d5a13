internal import CDBus
import Common
import Loop

/// Implements libdbus's watches with the event loop. libdbus has one watch for each direction of a descriptor, the
/// event loop one source for each descriptor; this class combines them.
@LoopActor
final class SocketWatches {
  private var watches: [OpaquePointer] = []
  private var sources: [Int32: (wanted: Readiness, registration: Registration)] = [:]
  /// Called after a watch was handled, because messages may have arrived.
  var onProgress: @LoopActor () -> Void = {}

  func add(_ watch: OpaquePointer) {
    watches.append(watch)
    update(dbus_watch_get_unix_fd(watch))
  }

  func remove(_ watch: OpaquePointer) {
    watches.removeAll { $0 == watch }
    update(dbus_watch_get_unix_fd(watch))
  }

  func toggled(_ watch: OpaquePointer) {
    update(dbus_watch_get_unix_fd(watch))
  }

  func removeAll() {
    watches = []
    sources = [:]
  }

  private func update(_ descriptor: Int32) {
    var wanted: Readiness = []
    for watch in watches where dbus_watch_get_unix_fd(watch) == descriptor && dbus_watch_get_enabled(watch) != 0 {
      let flags = dbus_watch_get_flags(watch)
      if flags & DBUS_WATCH_READABLE.rawValue != 0 { wanted.insert(.readable) }
      if flags & DBUS_WATCH_WRITABLE.rawValue != 0 { wanted.insert(.writable) }
    }
    guard wanted != sources[descriptor]?.wanted ?? [] else { return }
    sources[descriptor] = nil
    guard !wanted.isEmpty else { return }
    let registration = EventLoop.shared.watch(descriptor, for: wanted) { [weak self] ready in
      self?.handle(descriptor, ready)
    }
    sources[descriptor] = (wanted, registration)
  }

  private func handle(_ descriptor: Int32, _ ready: Readiness) {
    for watch in watches {
      // Handling one watch may remove others.
      guard watches.contains(watch), dbus_watch_get_unix_fd(watch) == descriptor, dbus_watch_get_enabled(watch) != 0
      else { continue }
      let asked = dbus_watch_get_flags(watch) | DBUS_WATCH_HANGUP.rawValue | DBUS_WATCH_ERROR.rawValue
      let flags = ready.watchFlags & asked
      if flags != 0 { dbus_watch_handle(watch, flags) }
    }
    onProgress()
  }
}

extension Readiness {
  fileprivate var watchFlags: UInt32 {
    var flags: UInt32 = 0
    if contains(.readable) { flags |= DBUS_WATCH_READABLE.rawValue }
    if contains(.writable) { flags |= DBUS_WATCH_WRITABLE.rawValue }
    if contains(.hungUp) { flags |= DBUS_WATCH_HANGUP.rawValue }
    if contains(.failed) { flags |= DBUS_WATCH_ERROR.rawValue }
    return flags
  }
}

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
    // The timeout is started again, because a timeout of libdbus repeats until it is removed.
    update(timeout)
    dbus_timeout_handle(timeout)
    onProgress()
  }
}
