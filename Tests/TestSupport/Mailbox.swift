import Loop

/// Values in the order of arrival, for a test that waits for them.
@LoopActor
public final class Mailbox<Value: Sendable> {
  public struct NothingCame: Error, CustomStringConvertible {
    public let description: String
  }

  /// All values until now.
  public private(set) var all: [Value] = []
  private var taken = 0
  private var waiting: [CheckedContinuation<Void, Never>] = []

  public init() {}

  public func put(_ value: Value) {
    all.append(value)
    wake()
  }

  /// Waits for the next value that was not taken yet.
  ///
  /// - Throws: `NothingCame` if no value arrives within `Patience.limit`.
  public func next() async throws -> Value {
    try await first { _ in true }
  }

  /// Waits for the next value with the property, skipping those before it.
  public func first(where isWanted: @LoopActor (Value) -> Bool) async throws -> Value {
    let deadline = EventLoop.shared.now.advanced(by: Patience.limit)
    let timer = EventLoop.shared.schedule(at: deadline) { [weak self] in self?.wake() }
    defer { timer.cancel() }
    while true {
      while taken < all.count {
        taken += 1
        if isWanted(all[taken - 1]) { return all[taken - 1] }
      }
      guard EventLoop.shared.now < deadline else {
        throw NothingCame(description: "nothing of that kind came within \(Patience.limit); what came: \(all)")
      }
      await withCheckedContinuation { waiting.append($0) }
    }
  }

  /// Marks all values that arrived until now as taken.
  public func forget() { taken = all.count }

  /// Removes all values that arrived until now, including from `all`.
  public func empty() { (all, taken) = ([], 0) }

  private func wake() {
    let woken = waiting
    waiting = []
    for continuation in woken { continuation.resume() }
  }
}
