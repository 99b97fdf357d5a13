import CLinux
import Common
import Glibc

/// The wall clock, which an administrator or a time service may set.
@LoopActor
public protocol WallClock: AnyObject, Sendable {
  /// Milliseconds since 1970-01-01 UTC.
  var milliseconds: Int64 { get }

  /// Whether a time service has synchronised the clock, according to the kernel.
  var isSynchronised: Bool { get }

  /// Calls `body` when the clock is set, and possibly on other occasions, for the lifetime of the registration.
  func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration
}

extension WallClock {
  /// Seconds since 1970-01-01 UTC.
  public var seconds: Int64 { milliseconds / 1000 }
}

/// The wall clock of this machine.
@LoopActor
public final class SystemWallClock: WallClock {
  public nonisolated init() {}

  public var milliseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
  }

  /// Nanoseconds since 1970-01-01 UTC.
  public var nanoseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
  }

  public var isSynchronised: Bool { earshot_is_clock_synchronised() == 1 }

  /// Creates a timer that never fires: the kernel cancels it when the clock is set.
  public func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration {
    let timer = timerfd_create(CLOCK_REALTIME, Int32(TFD_CLOEXEC) | Int32(TFD_NONBLOCK))
    guard timer >= 0, earshot_watch_clock(timer) == 0 else {
      if timer >= 0 { close(timer) }
      // Without the timer, callers still detect a changed clock when they read the time.
      return Registration {}
    }
    let watch = EventLoop.shared.watch(timer, for: .readable) { _ in
      var count: UInt64 = 0
      // The read fails with ECANCELED. The timer is armed again in any case.
      _ = read(timer, &count, 8)
      _ = earshot_watch_clock(timer)
      body()
    }
    return Registration {
      watch.cancel()
      close(timer)
    }
  }
}
