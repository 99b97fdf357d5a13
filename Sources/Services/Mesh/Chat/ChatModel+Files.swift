import MeshViews

/// Files in a chat: transfers appear as notices in their conversations.
extension ChatModel {
  /// Step of the progress reports, in percent.
  private static let quarter = 25

  /// Adds notices about changed files. Files that were complete at the start are not reported.
  mutating func tell(_ all: [MeshFileView]) {
    for (file, sentence) in news(of: all) {
      let place = file.isPrivate ? file.peer : Self.everybody
      conversations[place, default: Conversation()].add(notice: sentence)
    }
    files = Dictionary(all.map { ($0.number, $0) }) { first, _ in first }
  }

  /// Changed files, each with a sentence.
  func news(of all: [MeshFileView]) -> [(MeshFileView, String)] {
    guard let files else {
      return all.filter { !$0.isEnded }.map { ($0, sentence($0)) }
    }
    return all.compactMap { file in
      let before = files[file.number]
      let hasMoved =
        !file.isEnded && file.progress / Self.quarter > (before?.progress ?? 0) / Self.quarter
      return before?.state != file.state || hasMoved ? (file, sentence(file)) : nil
    }
  }

  func sentence(_ file: MeshFileView) -> String {
    let name = ChatText.line(file.shownName)
    let what = "\"\(name)\" (\(file.shownSize))"
    let peer = file.peer.isEmpty ? "everybody" : ChatText.label(book, file.peer)
    switch file.state {
    case "received": return "\(peer) has sent \(what): earshot mesh files --save \(file.number)"
    case "receiving": return "\(peer) is sending a file: \(file.progress) %"
    case "waiting": return "\(what) waits for \(file.peer.isEmpty ? "a peer" : peer) to accept it."
    case "sending": return "\(what) is being sent to \(peer): \(file.progress) %"
    case "sent": return "\(what) was sent to \(peer)."
    case "delivered": return "\(peer) has received \(what)."
    case "cancelled": return "Sending \(what) was cancelled."
    default: return "\(what) was not sent. \(file.reason)"
    }
  }
}
