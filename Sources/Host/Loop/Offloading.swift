/// Executes work away from the loop.
@LoopActor
public protocol Offloading: AnyObject, Sendable {
  /// Runs `work`, which takes more than a millisecond, away from the loop, and passes its result to `then` on the loop.
  func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void)
}
