import Loop

/// Delays a program's calls until its credentials are known, then permits or refuses them, in order.
@LoopActor
final class AccessGate {
  private typealias Call = (message: Message, answer: Answer)

  private let rule: AccessRule
  private unowned let connection: BusConnection
  private let limits: BusLimits
  private let enter: @LoopActor (Message, Answer, Audience) -> Void
  private var waiting: [String: [Call]] = [:]
  /// Number of calls by programs without permission.
  var denied: UInt64 = 0
  /// Number of calls that were refused because too many waited.
  private(set) var refused: UInt64 = 0

  /// - Parameter enter: handles each permitted call, with its caller's audience.
  init(_ rule: AccessRule, _ connection: BusConnection, enter: @escaping @LoopActor (Message, Answer, Audience) -> Void)
  {
    self.rule = rule
    self.connection = connection
    limits = connection.limits
    self.enter = enter
  }

  func receive(_ message: Message, _ answer: Answer) {
    let sender = message.sender ?? ""
    if waiting[sender] != nil {
      _ = wait((message, answer), sender)
      return
    }
    if let audience = audience(whoeverMakes: message) { return enter(message, answer, audience) }
    if let known = connection.credentials.known(sender) { return decide((message, answer), rule.allows(known)) }
    guard wait((message, answer), sender) else { return }
    connection.credentials.get(sender) { [weak self] in self?.learned(sender, try? $0.get()) }
  }

  /// The audience of a call that is permitted before its caller is known; nil if the caller must be known. Any path answers a ping, which
  /// reveals nothing about objects.
  private func audience(whoeverMakes message: Message) -> Audience? {
    if rule.isOpen(message) { return .group }
    return message.interface == StandardName.peer ? .everybody : nil
  }

  /// - Returns: false if too many calls already wait; the call is then answered with an error.
  private func wait(_ call: Call, _ sender: String) -> Bool {
    let calls = waiting[sender]?.count ?? 0
    guard calls < limits.waitingCalls, calls > 0 || waiting.count < limits.waitingCallers else {
      refused += 1
      _ = call.answer.give(.failure(.limitExceeded("Too many calls wait to be admitted.")))
      return false
    }
    waiting[sender, default: []].append(call)
    return true
  }

  /// - Parameter credentials: nil if the bus could not provide them; the program then does not belong to the group.
  private func learned(_ sender: String, _ credentials: Credentials?) {
    let isAllowed = credentials.map(rule.allows) ?? false
    for call in waiting.removeValue(forKey: sender) ?? [] { decide(call, isAllowed) }
  }

  private func decide(_ call: Call, _ isAllowed: Bool) {
    if isAllowed { return enter(call.message, call.answer, .group) }
    if let audience = audience(whoeverMakes: call.message) { return enter(call.message, call.answer, audience) }
    if AccessRule.looks(call.message) { return enter(call.message, call.answer, .everybody) }
    denied += 1
    _ = call.answer.give(.failure(.denied(rule.refusal)))
  }
}
