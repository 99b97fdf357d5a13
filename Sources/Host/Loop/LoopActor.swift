/// The actor of all state of the process: services, radios and the bus run on it, on the event loop's thread.
@globalActor
public actor LoopActor {
  public static let shared = LoopActor()

  public nonisolated var unownedExecutor: UnownedSerialExecutor {
    EventLoop.shared.asUnownedSerialExecutor()
  }

  /// Runs `body` on the loop and returns its result. Nothing else runs on the loop during one `run`.
  public static func run<Value: Sendable>(
    _ body: @LoopActor @Sendable () throws -> Value
  ) async rethrows -> Value {
    try await body()
  }

  /// Calls `body` immediately, isolated to the actor. It is for C callbacks on the loop's thread.
  ///
  /// - Precondition: the caller is on the loop's thread.
  public static func assumeIsolated<Value>(_ body: @LoopActor () throws -> Value) rethrows -> Value {
    // The runtime's own check is equivalent but slower, and this runs whenever a descriptor is ready.
    precondition(EventLoop.shared.isCurrent, "called from outside the event loop's thread")
    typealias Plain = () throws -> Value
    // The isolation is only a part of the closure's type; the line above has checked it.
    return try withoutActuallyEscaping(body) { try unsafeBitCast($0, to: Plain.self)() }
  }
}
