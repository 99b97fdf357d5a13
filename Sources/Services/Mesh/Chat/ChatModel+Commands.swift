import Common
import MeshNaming
import MeshViews
import Terminal

extension ChatModel {
  /// Executes a line of input that begins with a slash, such as `/nick NAME`.
  mutating func obey(_ line: String) -> [ChatAction] {
    let space = line.firstIndex(where: \.isWhitespace) ?? line.endIndex
    let name = line[..<space].lowercased()
    let rest = PastedText.trimmed(String(line[space...]))
    switch name {
    case "/msg": return message(rest)
    case "/all":
      open(Self.everybody)
      if !rest.isEmpty { return [.say(rest)] }
    case "/who": for line in present { notice(line) }
    case "/send":
      if rest.isEmpty { remark = "/send FILE" } else { return [.sendFile(path: rest, peer: current)] }
    case "/clear": conversations[current]?.clear()
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

  /// Splits the name of a peer from the text after it: ``MeshNameIndex/addressee(_:)``.
  private mutating func addressee(_ rest: String) -> (peer: String, rest: String)? {
    do throws(MeshNameRefusal) { return try book.addressee(rest) } catch {
      refuse(error.sentence)
      return nil
    }
  }

  /// Shows why a command is rejected: in the status line, or in the conversation if the sentence is too long.
  private mutating func refuse(_ sentence: String) {
    if isLargeEnough, DisplayText.width(sentence) > columns - 2 {
      notice(sentence)
      remark = "Nothing was sent or changed: see the last line above."
    } else {
      remark = sentence
    }
  }

  /// Returns the named peer, or that of the displayed conversation.
  private mutating func peer(_ name: String) -> MeshPeerView? {
    let id: String
    if name.isEmpty {
      guard current != Self.everybody else {
        remark = "Name a peer, or open the conversation with it."
        return nil
      }
      id = current
    } else {
      do throws(MeshNameRefusal) { id = try book.peer(name) } catch {
        refuse(error.sentence)
        return nil
      }
    }
    if peers[id] == nil { remark = "That peer is not known now." }
    return peers[id]
  }

  /// Sentence about the result of a proof.
  func sentence(of proof: MeshProof, from peer: String) -> String {
    proof.sentence(name: ChatText.label(book, peer))
  }

  /// Lines that describe the peers in range, for `/who`.
  var present: [String] {
    let near = list.compactMap { peers[$0] }.filter(\.isNear)
    if near.isEmpty { return ["No peer is in range."] }
    return near.map { "\(ChatText.label(book, $0.id)) \(words(of: $0).joined(separator: ", "))" }
  }

  /// Sentence about a completed action; nil if the screen shows the effect anyway.
  func sentence(ofDone action: ChatAction) -> String? {
    switch action {
    case .favourite(let peer, true): "\(ChatText.label(book, peer)) is a favourite."
    case .favourite(let peer, false): "\(ChatText.label(book, peer)) is no longer a favourite."
    case .block(let peer, true): "\(ChatText.label(book, peer)) is blocked: nothing that it sends is shown."
    case .block(let peer, false): "\(ChatText.label(book, peer)) is no longer blocked."
    case .verify(let peer, let fingerprint):
      "\(ChatText.label(book, peer)) is \(fingerprint.isEmpty ? "no longer verified" : "verified")."
    case .setNickname(let name): "The nickname of this node is now <\(NicknameText.shown(name))>."
    case .say, .tell, .markRead, .sendFile, .verifyCode, .quit: nil
    }
  }

  private mutating func verify(_ rest: String) -> [ChatAction] {
    if rest.hasPrefix("bitchat:") {
      notice("Asking the peer of that code to prove that it has the keys of the code.")
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
    let name = ChatText.label(book, peer.id)
    guard !peer.fingerprint.isEmpty else {
      remark = "The fingerprint of that peer is not known yet."
      return []
    }
    notice("Fingerprint of \(name):")
    notice(Self.grouped(peer.fingerprint))
    notice("Fingerprint of this node:")
    notice(Self.grouped(node.fingerprint))
    notice(
      "Compare both with what \(name) sees, face to face or by a voice that you know. If they match: /verify yes. To "
        + "revoke this: /verify no.")
    return []
  }

  /// Groups digits by four: `0123 4567 …`
  static func grouped(_ digits: String) -> String {
    let all = Array(ChatText.line(digits))
    return stride(from: 0, to: all.count, by: 4).map { String(all[$0..<min($0 + 4, all.count)]) }.joined(separator: " ")
  }
}

/// Commands of the input line, and their help texts.
enum ChatWords {
  static let commands: [(name: String, arguments: String, help: String)] = [
    ("/msg", "NAME [TEXT]", "talk to one peer"),
    ("/all", "[TEXT]", "talk to everybody"),
    ("/who", "", "list the peers in range"),
    ("/send", "FILE", "send a file of at most 1 MiB"),
    ("/clear", "", "clear the screen; the messages stay stored"),
    ("/nick", "NAME", "change your nickname"),
    ("/favourite", "[NAME]", "mark or unmark a favourite"),
    ("/block", "[NAME]", "block or unblock a peer"),
    ("/verify", "[NAME|CODE]", "compare fingerprints, or read a code"),
    ("/help", "", "show this help"),
    ("/quit", "", "leave (Ctrl-C)"),
  ]

  static var help: [String] {
    commands.map { "\($0.name)\($0.arguments.isEmpty ? "" : " " + $0.arguments) – \($0.help)" } + [
      "// at the beginning – a text that begins with a slash",
      "Tab – completes names and commands; Ctrl-N, Ctrl-P – the next and the previous conversation; Ctrl-G – the next "
        + "one with unread messages; PgUp, PgDn – older and newer messages; Up, Down – your sent lines",
      "· waiting, ✓ sent, ✓✓ delivered, ✓✓ read; ✗ failed",
      "Beside a peer: ▂▄▆█ signal strength of a neighbour, 2 number of hops; ✓ verified, ★ favourite, × blocked; at "
        + "the end: number of unread messages",
    ]
  }
}
