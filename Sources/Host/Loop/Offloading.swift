/// A place away from the loop where work may take its time.
@LoopActor
public protocol Offloading: AnyObject, Sendable {
  /// Runs `work`, which takes over a millisecond, away from the loop and hands its result to `then`, on the loop.
  func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void)
}
