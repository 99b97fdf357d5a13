import Journal
import Loop

/// The connection's match rules at the bus, each with a use count, so that subscriptions to equal signals share a rule.
@LoopActor
final class MatchRules {
  private var counts: [String: Int] = [:]
  /// Sends `AddMatch` or `RemoveMatch`, if connected.
  private let send: @LoopActor (_ method: String, _ rule: String) -> Void

  init(_ send: @escaping @LoopActor (_ method: String, _ rule: String) -> Void) {
    self.send = send
  }

  func add(_ rule: String) {
    counts[rule, default: 0] += 1
    if counts[rule] == 1 { send("AddMatch", rule) }
  }

  func remove(_ rule: String) {
    guard let count = counts[rule] else { return }
    counts[rule] = count == 1 ? nil : count - 1
    if count == 1 { send("RemoveMatch", rule) }
  }

  /// Sends all rules to a new bus.
  func resend() {
    for rule in counts.keys.sorted() { send("AddMatch", rule) }
  }
}
