import Loop

/// Holds a caller's calls back until it is known who the caller is, and lets them in or turns them away, in their order.
@LoopActor
final class AccessGate {
  private typealias Call = (message: Message, answer: Answer)

  /// Calls of one caller that wait for its credentials; and callers that wait.
  private static let mostWaiting = 256

  private let rule: AccessRule
  private unowned let connection: BusConnection
  private let enter: @LoopActor (Message, Answer) -> Void
  private var waiting: [String: [Call]] = [:]

  /// - Parameter enter: where calls go that may be made.
  init(_ rule: AccessRule, _ connection: BusConnection, enter: @escaping @LoopActor (Message, Answer) -> Void) {
    self.rule = rule
    self.connection = connection
    self.enter = enter
  }

  func receive(_ message: Message, _ answer: Answer) {
    let sender = message.sender ?? ""
    if waiting[sender] != nil { return wait((message, answer), sender) }
    if rule.isPublic(message) { return enter(message, answer) }
    if let known = connection.credentials.known(sender) { return decide((message, answer), rule.allows(known)) }
    wait((message, answer), sender)
    connection.credentials.get(sender) { [weak self] in self?.learned(sender, try? $0.get()) }
  }

  private func wait(_ call: Call, _ sender: String) {
    guard waiting[sender, default: []].count < Self.mostWaiting, waiting.count <= Self.mostWaiting else {
      _ = call.answer.give(.failure(.limitExceeded("Too many calls wait to be admitted.")))
      return
    }
    waiting[sender, default: []].append(call)
  }

  /// - Parameter credentials: nil where the bus could not say; such a caller is nobody.
  private func learned(_ sender: String, _ credentials: Credentials?) {
    let isAllowed = credentials.map(rule.allows) ?? false
    for call in waiting.removeValue(forKey: sender) ?? [] { decide(call, isAllowed) }
  }

  private func decide(_ call: Call, _ isAllowed: Bool) {
    if isAllowed || rule.isPublic(call.message) { return enter(call.message, call.answer) }
    _ = call.answer.give(.failure(.denied(rule.refusal)))
  }
}
