import Journal
import Loop

/// The signal subscriptions of this process.
@LoopActor
final class SignalRouter {
  private final class Subscription {
    let id: Int
    let match: SignalMatch
    let handler: @LoopActor (Message) -> Void
    var isAlive = true

    init(_ id: Int, _ match: SignalMatch, _ handler: @escaping @LoopActor (Message) -> Void) {
      self.id = id
      self.match = match
      self.handler = handler
    }
  }

  private unowned let connection: BusConnection
  /// Subscriptions by signal name; subscriptions to all names are under the empty name.
  private var subscriptions: [String: [Subscription]] = [:]
  private var lastID = 0

  init(_ connection: BusConnection) {
    self.connection = connection
  }

  func subscribe(_ match: SignalMatch, _ handler: @escaping @LoopActor (Message) -> Void) -> Registration {
    guard let rule = match.rule else {
      Log.shared.error("A subscription to signals has a part that D-Bus does not allow; it gets none")
      return Registration {}
    }
    lastID += 1
    let subscription = Subscription(lastID, match, handler)
    let key = match.member ?? ""
    subscriptions[key, default: []].append(subscription)
    // The name is tracked first, so that its owner is known before the first signal of the rule arrives.
    let name = match.trackedName.map { connection.names.track($0) }
    connection.rules.add(rule)
    return Registration { [weak self] in
      subscription.isAlive = false
      self?.remove(subscription, key, rule)
      name?.cancel()
    }
  }

  private func remove(_ subscription: Subscription, _ key: String, _ rule: String) {
    subscriptions[key]?.removeAll { $0 === subscription }
    if subscriptions[key]?.isEmpty == true { subscriptions[key] = nil }
    connection.rules.remove(rule)
  }

  /// Calls the handlers of matching subscriptions, in the order of subscription.
  func dispatch(_ message: Message) {
    guard message.fault == nil else { return }
    let wanted = (subscriptions[message.member ?? ""] ?? []) + (subscriptions[""] ?? [])
    for subscription in wanted.sorted(by: { $0.id < $1.id })
    where subscription.isAlive && isFrom(subscription.match, message) && subscription.match.matches(message) {
      subscription.handler(message)
    }
  }

  private func isFrom(_ match: SignalMatch, _ message: Message) -> Bool {
    guard let sender = match.sender else { return true }
    guard let name = match.trackedName else { return message.sender == sender }
    return message.sender != nil && connection.names.owner(of: name) == message.sender
  }
}

extension SignalMatch {
  /// The well-known name whose owner must be tracked.
  fileprivate var trackedName: String? {
    guard let sender, sender != Bus.name, !sender.hasPrefix(":") else { return nil }
    return sender
  }
}
