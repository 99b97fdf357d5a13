import Loop

/// Keeps a program's calls waiting until it is known which program it is, then lets them in or refuses them, in their order.
@LoopActor
final class AccessGate {
  private typealias Call = (message: Message, answer: Answer)

  private let rule: AccessRule
  private unowned let connection: BusConnection
  private let limits: BusLimits
  private let enter: @LoopActor (Message, Answer, Audience) -> Void
  private var waiting: [String: [Call]] = [:]
  /// Calls of programs that may not make them.
  var denied: UInt64 = 0
  /// Calls that came while too many waited.
  private(set) var refused: UInt64 = 0

  /// - Parameter enter: takes each call that may be made, with the audience that its caller belongs to.
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

  /// The audience with which a call is let in before it is known which program calls; nil where it has to be known. Any path answers a
  /// ping, and nothing tells by it what is there.
  private func audience(whoeverMakes message: Message) -> Audience? {
    if rule.isOpen(message) { return .group }
    return message.interface == StandardName.peer ? .everybody : nil
  }

  /// - Returns: false where too many wait already; the call is answered then.
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

  /// - Parameter credentials: nil where the bus could not say; such a program is not of the group.
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
