import DBus
import Loop
import Tool

/// What the service tells of the feed, in order, for a command that waits for it.
@LoopActor
final class NearbyEvents {
  enum Event: Equatable {
    case heard
    case sent(UInt64)
    case failed(UInt64, error: String, sentence: String)
    case notified
    /// The service ended.
    case gone
    /// The user has interrupted the command.
    case interrupted
  }

  private var events: [Event] = []
  private var waiter: CheckedContinuation<Void, Never>?
  private var registrations: [Registration] = []
  private var hasOwner = false

  /// Listens from now on: before something is asked for, so that nothing is lost in between.
  init(_ client: Client) {
    registrations = [
      client.onSignal { [weak self] in self?.signal($0) },
      client.bus.watchName(client.service) { [weak self] in self?.ownerChanged($0 != nil) },
    ]
  }

  func cancel() { for registration in registrations { registration.cancel() } }

  /// Adds `interrupted` after the events that arrived before.
  func interrupt() { add(.interrupted) }

  /// The next event, as soon as it is there.
  func next() async -> Event {
    while events.isEmpty { await withCheckedContinuation { waiter = $0 } }
    return events.removeFirst()
  }

  private func signal(_ message: Message) {
    guard message.path == BroadcastNames.path, message.interface == BroadcastNames.interface else { return }
    let arguments = message.arguments
    switch (message.member, arguments.first?.asUInt64) {
    case ("MessageHeard", _): add(.heard)
    case ("MessageSent", let number?): add(.sent(number))
    case ("MessageFailed", let number?) where arguments.count == 3:
      add(.failed(number, error: arguments[1].asString ?? "", sentence: arguments[2].asString ?? ""))
    case ("NotifyHeard", _): add(.notified)
    default: break
    }
  }

  private func ownerChanged(_ isThere: Bool) {
    // The name is unknown, too, before it is first looked up.
    if hasOwner, !isThere { add(.gone) }
    hasOwner = hasOwner || isThere
  }

  private func add(_ event: Event) {
    // One look at the messages is enough for all that came.
    if event == .heard, events.last == .heard { return }
    events.append(event)
    waiter?.resume()
    waiter = nil
  }
}
