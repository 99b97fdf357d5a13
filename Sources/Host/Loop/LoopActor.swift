/// The actor that owns all state of the process: services, radios and the bus run on it, on the event loop's thread.
@globalActor
public actor LoopActor {
  public static let shared = LoopActor()

  public nonisolated var unownedExecutor: UnownedSerialExecutor {
    EventLoop.shared.asUnownedSerialExecutor()
  }

  /// Runs `body` on the loop and returns what it returns. Within one `run` nothing else happens on the loop.
  public static func run<Value: Sendable>(
    _ body: @LoopActor @Sendable () throws -> Value
  ) async rethrows -> Value {
    try await body()
  }

  /// Calls `body` at once, as code of the loop. It is for callbacks from C that come on the loop's thread.
  ///
  /// - Precondition: the caller is on the loop's thread.
  public static func assumeIsolated<Value>(_ body: @LoopActor () throws -> Value) rethrows -> Value {
    // The runtime's own check comes to the same in the end, by a longer way, and this is asked whenever a descriptor is ready.
    precondition(EventLoop.shared.isCurrent, "called from outside the event loop's thread")
    typealias Plain = () throws -> Value
    // The isolation is a part of the closure's type and of nothing else; the line above has checked it.
    return try withoutActuallyEscaping(body) { try unsafeBitCast($0, to: Plain.self)() }
  }
}
