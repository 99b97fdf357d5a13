/// Somewhere away from the loop where work may take its time.
@LoopActor
public protocol Offloading: AnyObject, Sendable {
  /// Runs `work` away from the loop (anything over a millisecond) and hands its result to `then`, on the loop.
  func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void)
}
