import Loop

/// A wall clock that follows virtual time and that a test can set.
@LoopActor
public final class VirtualWallClock: WallClock {
  /// 2030-03-17 17:46:40 UTC, in milliseconds since 1970.
  public nonisolated static let usualStart: Int64 = 1_900_000_000_000

  private let time: any Scheduler
  /// Milliseconds since 1970 at the origin of virtual time.
  private var origin: Int64
  private let watchers = Observers<Void>()
  public var isSynchronised = true

  /// - Parameter start: milliseconds since 1970 at the origin of virtual time.
  public nonisolated init(_ time: any Scheduler, from start: Int64 = VirtualWallClock.usualStart) {
    (self.time, origin) = (time, start)
  }

  public var milliseconds: Int64 { origin + time.now.nanoseconds / 1_000_000 }

  public func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration { watchers.add(body) }

  /// Sets the clock forward, or back by a negative value, and notifies the watchers.
  public func set(by milliseconds: Int64) {
    origin += milliseconds
    watchers.call()
  }
}
