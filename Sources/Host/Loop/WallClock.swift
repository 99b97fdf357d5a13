import CLinux
import Common
import Glibc

/// The clock on the wall: it tells the date, and anybody may set it.
@LoopActor
public protocol WallClock: AnyObject, Sendable {
  /// Seconds since 1970.
  var seconds: Int64 { get }

  /// Calls `body` at once when the clock was set, and at most a few times more than that, for as long as the registration
  /// lives.
  func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration
}

/// The machine's.
@LoopActor
public final class SystemWallClock: WallClock {
  public nonisolated init() {}

  public var seconds: Int64 { Int64(time(nil)) }

  /// The kernel tells by a timer that is never due, and is cancelled when the clock is set.
  public func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration {
    let timer = timerfd_create(CLOCK_REALTIME, Int32(TFD_CLOEXEC) | Int32(TFD_NONBLOCK))
    guard timer >= 0, earshot_watch_clock(timer) == 0 else {
      if timer >= 0 { close(timer) }
      // Whoever asks for the time now and then will notice, too.
      return Registration {}
    }
    let watch = EventLoop.shared.watch(timer, for: .readable) { _ in
      var count: UInt64 = 0
      // It fails with ECANCELED; it is to be wound up again either way.
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
