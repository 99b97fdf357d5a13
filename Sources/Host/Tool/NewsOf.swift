import Common
import DBus
import Loop

/// Waits for signals about certain objects of the service, with a time limit.
@LoopActor
public final class NewsOf {
  private let isMeant: @LoopActor (Message) -> Bool
  private var registration: Registration?
  private var hasNews = false
  private var waiter: CheckedContinuation<Void, Never>?
  private var timer: Registration?

  /// - Parameter isMeant: selects the signals that the command waits for.
  public init(_ client: Client, where isMeant: @escaping @LoopActor (Message) -> Bool) {
    self.isMeant = isMeant
    registration = client.onSignal { [weak self] in if self?.isMeant($0) == true { self?.wake() } }
  }

  /// Returns at the first such signal since the last call, or after `limit`.
  public func next(within limit: Duration) async {
    if !hasNews {
      await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        waiter = continuation
        timer = EventLoop.shared.schedule(after: limit) { [weak self] in self?.wake() }
      }
    }
    (hasNews, timer) = (false, nil)
  }

  /// Ends a wait, as a signal does.
  public func wake() {
    hasNews = true
    waiter?.resume()
    waiter = nil
  }

  public func cancel() { registration = nil }
}
