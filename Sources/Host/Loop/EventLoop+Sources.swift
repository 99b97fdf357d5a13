import CSystemdEvent
import Common
import Glibc

/// Events of a file descriptor: those that occurred, or those to watch for.
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

  /// Runs a computation on a thread that executes one at a time. It must not block: operations that may block need a
  /// separate worker.
  @LoopActor
  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    computing.offload(work, then: then)
  }

  /// Calls `body` whenever `descriptor` is ready for one of `events`, for the lifetime of the registration.
  ///
  /// The caller owns the descriptor, and must cancel the registration before it closes the descriptor.
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

  /// Calls `body` on the loop for each `signal`, which this call blocks. Call it before starting threads: a thread that
  /// does not block the signal would receive it.
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

// Callbacks of sd-event. A closure in one of the functions above would be isolated to the actor, and the runtime would
// perform its slow check before `assumeIsolated` does.

private func timeHasCome(_: OpaquePointer?, _: UInt64, _ box: UnsafeMutableRawPointer?) -> Int32 { Source.call(box) }

private func descriptorIsReady(
  _: OpaquePointer?, _: Int32, _ ready: UInt32, _ box: UnsafeMutableRawPointer?
) -> Int32 { Source.call(box, ready) }

private func signalCame(
  _: OpaquePointer?, _: UnsafePointer<signalfd_siginfo>?, _ box: UnsafeMutableRawPointer?
) -> Int32 { Source.call(box) }

/// An sd-event source with its closure.
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

  /// Called by sd-event on the loop's thread. The box outlives the call, although the body may close the source.
  nonisolated static func call(_ box: UnsafeMutableRawPointer?, _ events: UInt32 = 0) -> Int32 {
    guard let box else { return 0 }
    let source = Unmanaged<Source>.fromOpaque(box).takeUnretainedValue()
    LoopActor.assumeIsolated { source.body(events) }
    return 0
  }
}
