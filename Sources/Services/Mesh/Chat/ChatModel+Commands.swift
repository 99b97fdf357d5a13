import Common
import MeshViews

extension ChatModel {
  /// Does what a line that begins with a slash says.
  mutating func obey(_ line: String) -> [ChatAction] {
    let space = line.firstIndex(where: \.isWhitespace) ?? line.endIndex
    let name = line[..<space].lowercased()
    let rest = PastedText.trimmed(String(line[space...]))
    switch name {
    case "/msg": return message(rest)
    case "/all": open(Self.everybody)
    case "/nick":
      if rest.isEmpty { remark = "/nick NAME" } else { return [.setNickname(rest)] }
    case "/favourite", "/favorite":
      return peer(rest).map { [.favourite(peer: $0.id, !$0.isFavourite)] } ?? []
    case "/block": return peer(rest).map { [.block(peer: $0.id, !$0.isBlocked)] } ?? []
    case "/verify": return verify(rest)
    case "/help": for line in ChatWords.help { notice(line) }
    case "/quit", "/exit": return [.quit]
    default: remark = "There is no command \(ChatText.name(String(line[..<space]))): /help lists them."
    }
    return []
  }

  private mutating func message(_ rest: String) -> [ChatAction] {
    guard !rest.isEmpty else {
      remark = "/msg NAME TEXT"
      return []
    }
    guard let (id, text) = addressee(rest) else { return [] }
    guard !text.isEmpty else {
      open(id)
      return []
    }
    open(id)
    return [.tell(peer: id, text)]
  }

  /// The peer that a text begins with, and what follows. Names may have blanks: the longest one that fits is meant.
  mutating func addressee(_ rest: String) -> (id: String, text: String)? {
    var ends = rest.indices.filter { rest[$0].isWhitespace }
    ends.append(rest.endIndex)
    for end in ends.suffix(MeshNameBook.limit).reversed() {
      let found = book.peers(called: String(rest[..<end])).filter { $0 != node.id }
      guard let id = found.first else { continue }
      guard found.count == 1 else {
        remark = "Several have that name: " + found.map { ChatText.name(book.name(of: $0)) }.joined(separator: ", ")
        return nil
      }
      return (id, String(rest[end...].drop(while: \.isWhitespace)))
    }
    remark = "Nobody is known by that name."
    return nil
  }

  /// The one that is named, or the one of the conversation on the screen.
  private mutating func peer(_ name: String) -> MeshPeerView? {
    let id: String
    if name.isEmpty {
      guard current != Self.everybody else {
        remark = "Say which peer, or go to the conversation with it."
        return nil
      }
      id = current
    } else {
      guard let (found, rest) = addressee(name) else { return nil }
      guard rest.isEmpty else {
        remark = "Nobody is known by that name."
        return nil
      }
      id = found
    }
    if peers[id] == nil { remark = "That peer is not known now." }
    return peers[id]
  }

  /// What a proof has come to, for people.
  func sentence(of proof: MeshProof, from peer: String) -> String {
    proof.sentence(name: ChatText.name(book.name(of: peer)))
  }

  private mutating func verify(_ rest: String) -> [ChatAction] {
    if rest.hasPrefix("bitchat:") {
      notice("The peer of that code is asked for proof.")
      return [.verifyCode(PastedText.unbroken(rest))]
    }
    if rest == "yes" || rest == "no", let peer = peer("") {
      guard rest == "yes" else { return [.verify(peer: peer.id, fingerprint: "")] }
      guard !peer.fingerprint.isEmpty else {
        remark = "The fingerprint of that peer is not known yet."
        return []
      }
      if !peer.isVerified {
        notice(
          "\(ChatText.name(book.name(of: peer.id))) is verified when it has proven its signing key: at once if it is in range, "
            + "otherwise when it returns.")
      }
      return [.verify(peer: peer.id, fingerprint: peer.fingerprint)]
    }
    guard rest != "yes", rest != "no", let peer = peer(rest) else { return [] }
    open(peer.id)
    let name = ChatText.name(book.name(of: peer.id))
    guard !peer.fingerprint.isEmpty else {
      remark = "The fingerprint of that peer is not known yet."
      return []
    }
    notice("Fingerprint of \(name):")
    notice(Self.grouped(peer.fingerprint))
    notice("Your own:")
    notice(Self.grouped(node.fingerprint))
    notice(
      "Compare both with what \(name) sees, face to face or by a voice that you know. If they are the same: /verify yes. "
        + "To take it back: /verify no.")
    return []
  }

  /// `0123 4567 …`
  static func grouped(_ digits: String) -> String {
    let all = Array(ChatText.line(digits))
    return stride(from: 0, to: all.count, by: 4).map { String(all[$0..<min($0 + 4, all.count)]) }.joined(separator: " ")
  }
}
