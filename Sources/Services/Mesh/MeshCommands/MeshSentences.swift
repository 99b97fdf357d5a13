import DBus
import MeshViews
import Tool

/// The events of the mesh as sentences.
enum MeshSentences {
  static func text(_ event: ServiceEvent) -> String? {
    switch event {
    case .changed(_, MeshNames.interface, let values, let invalidated, let known): change(values, invalidated, known)
    case .signal(_, MeshNames.interface, let name, let arguments): signal(name, arguments)
    default: nil
    }
  }

  private static func change(
    _ values: [String: DBusValue], _ invalidated: [String], _ known: [String: DBusValue]
  ) -> String? {
    var sentences: [String] = []
    if let state = values["State"]?.text {
      sentences.append(state == "waitingForClock" ? "The mesh waits for the clock." : "The mesh is \(state).")
    }
    if let reason = values["Reason"]?.text, !reason.isEmpty { sentences.append(reason) }
    let names = ["Links": "the number of links", "Unread": "the number of unread messages", "Nickname": "the nickname"]
    let changed = invalidated.sorted().compactMap { names[$0] }
    if !changed.isEmpty { sentences.append("In the mesh, \(changed.joined(separator: " and ")) changed.") }
    return sentences.isEmpty ? nil : sentences.joined(separator: " ")
  }

  private static func signal(_ name: String, _ arguments: [DBusValue]) -> String? {
    guard let number = arguments.first?.asInteger else { return nil }
    let state = arguments.dropFirst().first?.text ?? ""
    return switch name {
    case "MessageWaiting": "Message \(number) has arrived: earshot mesh log"
    case "StateOfMessageChanged": "Message \(number) \(stateText(state))."
    case "FileWaiting": "File \(number) has arrived: earshot mesh files"
    case "StateOfFileChanged": "File \(number) \(stateText(state))."
    default: nil
    }
  }

  private static func stateText(_ state: String) -> String {
    switch state {
    case "waiting": "waits for a peer that takes it"
    case "sending": "is being sent"
    case "failed": "could not be sent"
    default: "was \(state)"
    }
  }
}
