import CLinux
import Common
import Glibc

/// The clock that tells the date. An administrator or a time service may set it.
@LoopActor
public protocol WallClock: AnyObject, Sendable {
  /// Milliseconds since 1970.
  var milliseconds: Int64 { get }

  /// Whether a time service has set the clock, as the kernel says.
  var isSynchronised: Bool { get }

  /// Calls `body` as soon as the clock is set, and perhaps a few times more than that, for as long as the registration
  /// lives.
  func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration
}

extension WallClock {
  /// Seconds since 1970.
  public var seconds: Int64 { milliseconds / 1000 }
}

/// The machine's own clock.
@LoopActor
public final class SystemWallClock: WallClock {
  public nonisolated init() {}

  public var milliseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
  }

  public var isSynchronised: Bool { earshot_is_clock_synchronised() == 1 }

  /// Sets a timer that is never due: the kernel cancels it when the clock is set.
  public func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration {
    let timer = timerfd_create(CLOCK_REALTIME, Int32(TFD_CLOEXEC) | Int32(TFD_NONBLOCK))
    guard timer >= 0, earshot_watch_clock(timer) == 0 else {
      if timer >= 0 { close(timer) }
      // A caller that reads the time now and then will notice as well.
      return Registration {}
    }
    let watch = EventLoop.shared.watch(timer, for: .readable) { _ in
      var count: UInt64 = 0
      // The read fails with ECANCELED. The timer is set again either way.
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
