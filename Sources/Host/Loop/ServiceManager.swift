import CSystemdEvent
import Common
import Glibc

/// Notifications to the service manager (systemd): readiness, status, watchdog. Without `$NOTIFY_SOCKET` the calls have
/// no effect.
@LoopActor
public enum ServiceManager {
  /// Reports once that the service is ready.
  public static func ready() { notify("READY=1") }

  /// Reports that the service reloads its configuration; `ready()` reports the end.
  public static func reloading(now: Instant) {
    notify("RELOADING=1\nMONOTONIC_USEC=\(now.nanoseconds / 1000)")
  }

  public static func stopping() { notify("STOPPING=1") }

  /// Reports one sentence about the service's activity, for `systemctl status`. Line breaks are replaced by spaces.
  public static func status(_ sentence: String) {
    notify("STATUS=" + String(sentence.map { $0.isNewline ? " " : $0 }))
  }

  /// The watchdog interval of the service manager; nil if the watchdog is disabled.
  public static var watchdogInterval: Duration? {
    var microseconds: UInt64 = 0
    guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
    return .microseconds(Int64(clamping: microseconds))
  }

  /// Sends watchdog notifications at half the required interval, while `isHealthy` returns true; nil if the watchdog is
  /// disabled.
  public static func startWatchdog(
    on scheduler: any Scheduler, isHealthy: @escaping @LoopActor () -> Bool
  ) -> Registration? {
    guard let interval = watchdogInterval else { return nil }
    let watchdog = Watchdog(scheduler, every: interval / 2, isHealthy: isHealthy)
    watchdog.tick()
    return Registration { watchdog.stop() }
  }

  /// Returns the listening sockets that the service manager passed to this process (`sd_listen_fds`), with the names of
  /// `FileDescriptorName=`. The caller owns the descriptors. A second call returns nothing.
  public static func takeListeners() -> [(name: String, descriptor: Int32)] {
    var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
    let count = sd_listen_fds_with_names(1, &names)
    guard count > 0 else { return [] }
    defer { free(names) }
    // systemd passes the descriptors from SD_LISTEN_FDS_START = 3 on.
    return (0..<Int(count)).map { index in
      let name = names?[index]
      defer { free(name) }
      return (name.map { String(cString: $0) } ?? "", Int32(3 + index))
    }
  }

  fileprivate static func notify(_ state: String) {
    sd_notify(0, state)
  }
}

@LoopActor
private final class Watchdog {
  private let scheduler: any Scheduler
  private let interval: Duration
  private let isHealthy: @LoopActor () -> Bool
  private var timer: Registration?

  init(_ scheduler: any Scheduler, every interval: Duration, isHealthy: @escaping @LoopActor () -> Bool) {
    self.scheduler = scheduler
    self.interval = interval
    self.isHealthy = isHealthy
  }

  func tick() {
    if isHealthy() { ServiceManager.notify("WATCHDOG=1") }
    timer = scheduler.schedule(after: interval) { [weak self] in self?.tick() }
  }

  func stop() { timer = nil }
}
