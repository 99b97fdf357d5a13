import DBus
import Loop
import Tool

/// Queue of the channel's signals and of the service's end, in order, for a command that waits for them.
@LoopActor
final class NearbyEvents {
  enum Event: Equatable {
    case heard
    case sent(UInt64)
    case failed(UInt64, error: String, sentence: String)
    case notified
    /// The service has lost its name on the bus.
    case gone
    /// The user has interrupted the command.
    case interrupted
  }

  private var events: [Event] = []
  private var waiter: CheckedContinuation<Void, Never>?
  private var registrations: [Registration] = []
  private var hasOwner = false

  /// Subscribes at once, so that no signal is lost between this call and a later request.
  init(_ client: Client) {
    registrations = [
      client.onSignal { [weak self] in self?.signal($0) },
      client.bus.watchName(client.service) { [weak self] in self?.ownerChanged($0 != nil) },
    ]
  }

  func cancel() { for registration in registrations { registration.cancel() } }

  /// Adds `interrupted` after the events that arrived before.
  func interrupt() { add(.interrupted) }

  /// Returns the next event, waiting for one if the queue is empty.
  func next() async -> Event {
    while events.isEmpty { await withCheckedContinuation { waiter = $0 } }
    return events.removeFirst()
  }

  private func signal(_ message: Message) {
    guard message.path == BroadcastNames.path, message.interface == BroadcastNames.interface else { return }
    let arguments = message.arguments
    switch (message.member, arguments.first?.asUInt64) {
    case ("MessageReceived", _): add(.heard)
    case ("MessageSent", let number?): add(.sent(number))
    case ("MessageFailed", let number?) where arguments.count == 3:
      add(.failed(number, error: arguments[1].asString ?? "", sentence: arguments[2].asString ?? ""))
    case ("NotifyReceived", _): add(.notified)
    default: break
    }
  }

  private func ownerChanged(_ isThere: Bool) {
    // Before the first lookup the name also has no owner, which is not the end of the service.
    if hasOwner, !isThere { add(.gone) }
    hasOwner = hasOwner || isThere
  }

  private func add(_ event: Event) {
    // One fetch of the messages covers all consecutive signals.
    if event == .heard, events.last == .heard { return }
    events.append(event)
    waiter?.resume()
    waiter = nil
  }
}

/// The events of the local broadcast channel as sentences.
enum NearbySentences {
  static func text(_ event: ServiceEvent) -> String? {
    switch event {
    case .changed(_, BroadcastNames.interface, let values, let invalidated, _): change(values, invalidated)
    case .signal(_, BroadcastNames.interface, let name, let arguments): signal(name, arguments)
    default: nil
    }
  }

  private static func change(_ values: [String: DBusValue], _ invalidated: [String]) -> String? {
    var sentences: [String] = []
    if let state = values["State"]?.text { sentences.append("The local broadcast channel is \(state).") }
    if let reason = values["Reason"]?.text, !reason.isEmpty { sentences.append(reason) }
    let names = [
      "PeersNearby": "the number of peers nearby", "NotifyLimit": "the limit of notifications",
      "NotifiesLeft": "the number of notifications left today",
    ]
    let changed = invalidated.sorted().compactMap { names[$0] }
    if !changed.isEmpty {
      sentences.append("In the local broadcast channel, \(changed.joined(separator: " and ")) changed.")
    }
    return sentences.isEmpty ? nil : sentences.joined(separator: " ")
  }

  private static func signal(_ name: String, _ arguments: [DBusValue]) -> String? {
    let number = arguments.first?.text ?? ""
    let reason = arguments.last?.text ?? ""
    return switch name {
    case "MessageReceived": "Message \(number) nearby was received: earshot nearby watch"
    case "MessageSent": "Message \(number) was broadcast nearby."
    case "MessageFailed": "Message \(number) was not broadcast nearby. \(reason)"
    case "NotifyReceived": "Somebody nearby wants to talk."
    case "NotifySent": "The notification that somebody here wants to talk was broadcast."
    case "NotifyFailed": "The notification that somebody here wants to talk was not broadcast. \(reason)"
    default: nil
    }
  }
}
