import CSystemdEvent
import Common
import Glibc

/// What a descriptor is ready for, or is watched for.
public struct Readiness: OptionSet, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  public static let readable = Readiness(rawValue: UInt32(EPOLLIN.rawValue))
  public static let writable = Readiness(rawValue: UInt32(EPOLLOUT.rawValue))
  public static let hungUp = Readiness(rawValue: UInt32(EPOLLHUP.rawValue))
  public static let failed = Readiness(rawValue: UInt32(EPOLLERR.rawValue))
}

extension EventLoop: Scheduler {
  @LoopActor public var now: Instant {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
  }

  @LoopActor
  public func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration {
    let microseconds = UInt64(max(0, instant.nanoseconds)) / 1000 + 1
    return source(
      calling: { _ in body() },
      add: { event, source, box in
        sd_event_add_time(event, source, CLOCK_MONOTONIC, microseconds, 1000, timeHasCome, box)
      })
  }

  /// Work that computes, and waits for nothing: one thread does it, piece by piece. What may hang has a worker of its own.
  @LoopActor
  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    computing.offload(work, then: then)
  }

  /// Calls `body` whenever `descriptor` is ready for one of `events`, for as long as the registration lives.
  ///
  /// The descriptor stays the caller's: the caller cancels the registration before it closes the descriptor.
  @LoopActor
  public func watch(
    _ descriptor: Int32, for events: Readiness, _ body: @escaping @LoopActor (Readiness) -> Void
  ) -> Registration {
    source(
      calling: { body(Readiness(rawValue: $0)) },
      add: { event, source, box in
        sd_event_add_io(event, source, descriptor, events.rawValue, descriptorIsReady, box)
      })
  }

  /// Calls `body` on the loop for each `signal`, which is blocked from now on. A program calls this before it starts a
  /// thread: a thread that does not block the signal would take it.
  @LoopActor
  public func on(signal: Int32, _ body: @escaping @LoopActor () -> Void) -> Registration {
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, signal)
    pthread_sigmask(SIG_BLOCK, &set, nil)
    return source(
      calling: { _ in body() },
      add: { event, source, box in
        sd_event_add_signal(event, source, signal, signalCame, box)
      })
  }

  @LoopActor
  private func source(
    calling body: @escaping @LoopActor (UInt32) -> Void,
    add: (OpaquePointer, UnsafeMutablePointer<OpaquePointer?>, UnsafeMutableRawPointer) -> Int32
  ) -> Registration {
    let source = Source(body)
    source.open { add(handle, $0, $1) }
    return Registration { source.close() }
  }
}

// What sd-event calls. A closure in one of the functions above would be the actor's, and the runtime would check that at length each
// time, before `assumeIsolated` does.

private func timeHasCome(_: OpaquePointer?, _: UInt64, _ box: UnsafeMutableRawPointer?) -> Int32 { Source.call(box) }

private func descriptorIsReady(
  _: OpaquePointer?, _: Int32, _ ready: UInt32, _ box: UnsafeMutableRawPointer?
) -> Int32 { Source.call(box, ready) }

private func signalCame(
  _: OpaquePointer?, _: UnsafePointer<signalfd_siginfo>?, _ box: UnsafeMutableRawPointer?
) -> Int32 { Source.call(box) }

/// An sd-event source with the closure it calls.
@LoopActor
private final class Source {
  private let body: @LoopActor (UInt32) -> Void
  private var handle: OpaquePointer?

  init(_ body: @escaping @LoopActor (UInt32) -> Void) {
    self.body = body
  }

  func open(_ add: (UnsafeMutablePointer<OpaquePointer?>, UnsafeMutableRawPointer) -> Int32) {
    let box = Unmanaged.passRetained(self)
    if add(&handle, box.toOpaque()) < 0 { box.release() }
  }

  func close() {
    guard handle != nil else { return }
    handle = sd_event_source_disable_unref(handle)
    Unmanaged.passUnretained(self).release()
  }

  /// Called by sd-event on the loop's thread. The box outlives the call, though the body may close the source.
  nonisolated static func call(_ box: UnsafeMutableRawPointer?, _ events: UInt32 = 0) -> Int32 {
    guard let box else { return 0 }
    let source = Unmanaged<Source>.fromOpaque(box).takeUnretainedValue()
    LoopActor.assumeIsolated { source.body(events) }
    return 0
  }
}
