import Loop

/// What arrives, one after the other, for a test that waits for it.
@LoopActor
public final class Mailbox<Value: Sendable> {
  public struct NothingCame: Error, CustomStringConvertible {
    public let description: String
  }

  /// Everything that came so far.
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
  /// - Throws: `NothingCame` where no value comes within `Patience.limit`.
  public func next() async throws -> Value {
    try await first { _ in true }
  }

  /// Waits for the next value that is as wanted; those before it are passed over.
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

  /// Passes over everything that came so far.
  public func forget() { taken = all.count }

  /// The same, and nothing of it is among `all` any more.
  public func empty() { (all, taken) = ([], 0) }

  private func wake() {
    let woken = waiting
    waiting = []
    for continuation in woken { continuation.resume() }
  }
}
