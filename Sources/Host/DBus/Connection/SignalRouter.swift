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
      Log.shared.error("A signal subscription with an invalid D-Bus name or text is ignored")
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

/// The filter of a signal subscription. A nil part matches everything.
public struct SignalMatch: Hashable, Sendable {
  /// A unique or a well-known name; a well-known one matches signals of its owner.
  public var sender: String?
  public var path: ObjectPath?
  /// Matches this path and all below it. The part is not sent to the bus: dbus-daemon 1.14 treats rules that differ
  /// only in it as equal, so that removing one removes another.
  public var pathNamespace: ObjectPath?
  public var interface: String?
  public var member: String?
  /// The first argument, if it is a string.
  public var arg0: String?

  public init(
    sender: String? = nil, path: ObjectPath? = nil, pathNamespace: ObjectPath? = nil, interface: String? = nil,
    member: String? = nil, arg0: String? = nil
  ) {
    self.sender = sender
    self.path = path
    self.pathNamespace = pathNamespace
    self.interface = interface
    self.member = member
    self.arg0 = arg0
  }

  /// The match rule for the bus; nil if a part is invalid.
  var rule: String? {
    guard sender.map(Validity.isBusName) ?? true, interface.map(Validity.isInterface) ?? true,
      member.map(Validity.isMember) ?? true, arg0.map(Validity.isText) ?? true, path == nil || pathNamespace == nil
    else { return nil }
    var rule = "type='signal'"
    func add(_ key: String, _ value: String?) {
      // Only arg0 can contain an apostrophe: the quotes are closed, the apostrophe is escaped, and the quotes are
      // opened again.
      if let value {
        rule += ",\(key)='\(value.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''"))'"
      }
    }
    add("sender", sender)
    add("path", path?.string)
    add("interface", interface)
    add("member", member)
    add("arg0", arg0)
    return rule
  }

  /// Whether the signal matches, regardless of its sender.
  func matches(_ message: Message) -> Bool {
    if let member, member != message.member { return false }
    if let interface, interface != message.interface { return false }
    if let path, path != message.path { return false }
    if let pathNamespace, message.path?.isWithin(pathNamespace) != true { return false }
    if let arg0 {
      guard case .string(arg0)? = message.arguments.first else { return false }
    }
    return true
  }
}

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
