import DBus
import Tool

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
    case "MessageHeard": "Message \(number) nearby was received: earshot nearby watch"
    case "MessageSent": "Message \(number) was broadcast nearby."
    case "MessageFailed": "Message \(number) was not broadcast nearby. \(reason)"
    case "NotifyHeard": "Somebody nearby wants to talk."
    case "NotifySent": "The notification that somebody here wants to talk was broadcast."
    case "NotifyFailed": "The notification that somebody here wants to talk was not broadcast. \(reason)"
    default: nil
    }
  }
}
