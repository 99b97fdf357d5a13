import DBus
import MeshNaming
import MeshViews
import Tool

/// Sentences about D-Bus signals of the mesh, for `earshot monitor`.
enum MeshSentences {
  static func text(_ event: ServiceEvent) -> String? {
    switch event {
    case .changed(_, MeshNames.interface, let values, let invalidated, let known): change(values, invalidated, known)
    case .signal(_, MeshNames.interface, let name, let arguments): signal(name, arguments)
    case .signal(let path, MeshNames.peerInterface, "Renamed", let arguments): renamed(path, arguments)
    case .changed(let path, MeshNames.fileInterface, let values, _, _): fileChange(path, values)
    case .changed(let path, MeshNames.peerInterface, let values, _, _): peerChange(path, values)
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

  /// Sentence about a renamed favourite or verified peer.
  private static func renamed(_ path: ObjectPath, _ arguments: [DBusValue]) -> String? {
    guard let before = arguments.first?.asString, let now = arguments.last?.asString else { return nil }
    return NicknameText.renamed(peer(path), before: before, now: now)
  }

  /// Changed properties of a peer, with its ID. The nickname is in angle brackets, which displayed nicknames cannot
  /// contain.
  private static func peerChange(_ path: ObjectPath, _ values: [String: DBusValue]) -> String? {
    var words =
      values.filter { !nameProperties.contains($0.key) }.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.text)" }
    if let name = values["Nickname"]?.asString { words.insert("Nickname <\(NicknameText.shown(name))>", at: 0) }
    return words.isEmpty ? nil : "Peer \(peer(path)): \(words.joined(separator: ", "))."
  }

  /// Changed properties of a file. Text of the sender is in quotation marks or angle brackets.
  private static func fileChange(_ path: ObjectPath, _ values: [String: DBusValue]) -> String? {
    guard let number = MeshFileView(path.string, values)?.number else { return nil }
    let words = values.sorted { $0.key < $1.key }.compactMap { name, value -> String? in
      switch name {
      case "Name": value.text.isEmpty ? nil : "name \"\(NicknameText.unreserved(value.text, limit: 100))\""
      case "Nickname": value.text.isEmpty ? nil : "from <\(NicknameText.shown(value.text))>"
      case "Progress": "\(value.text) %"
      case "Size": "\(value.text) bytes"
      case "State": value.text
      case "Reason": value.text.isEmpty ? nil : value.text
      default: nil
      }
    }
    return words.isEmpty ? nil : "File \(number): \(words.joined(separator: ", "))."
  }

  private static let nameProperties: Set<String> = ["Nickname", "VerifiedName", "NicknameHistory"]

  private static func peer(_ path: ObjectPath) -> String {
    let prefix = MeshNames.path(ofPeer: "").string
    return path.string.hasPrefix(prefix) ? String(path.string.dropFirst(prefix.count)) : path.string
  }

  private static func signal(_ name: String, _ arguments: [DBusValue]) -> String? {
    guard let number = arguments.first?.asInteger else { return nil }
    let state = arguments.dropFirst().first?.text ?? ""
    return switch name {
    case "MessageReceived": "Message \(number) has arrived: earshot mesh log"
    case "MessageStateChanged": "Message \(number) \(stateText(state))."
    case "MessageWentByUplink": "Message \(number) goes over the uplink: earshot mesh uplink"
    case "FileReceived": "File \(number) has arrived: earshot mesh files"
    case "FileStateChanged": "File \(number) \(stateText(state))."
    default: nil
    }
  }

  private static func stateText(_ state: String) -> String {
    switch state {
    case "waiting": "waits for a peer that accepts it"
    case "sending": "is being sent"
    case "failed": "could not be sent"
    default: "was \(state)"
    }
  }
}
