import CommandLine
import Common
import FullScreen
import MeshNaming
import MeshViews
import Tool

/// State of a chat screen: it handles events, returns actions, and draws frames. A value without access to terminal,
/// bus and clock.
public struct ChatModel: Sendable, Equatable {
  static let everybody = ""

  let moment: @Sendable (UInt64) -> ChatMoment
  var node = MeshView()
  var peers: [String: MeshPeerView] = [:]
  var book = MeshNameIndex()
  /// Nicknames of senders that the service does not list as peers.
  private var strangers: [String: String] = [:]
  /// Conversations by peer ID; public messages have the empty key.
  var conversations: [String: Conversation] = [everybody: Conversation()]
  /// The conversation on the screen.
  var current = everybody
  var input = InputLine()
  var columns = 80
  var rows = 24
  var isServiceThere = false
  /// Sentence in the status line, shown until the next key is pressed.
  var remark = ""
  /// Files at the last report; nil before the first.
  var files: [UInt32: MeshFileView]?
  private var completion: Completion?
  /// Lines that the user has sent, for recall with the arrow keys.
  private var sent: [String] = []
  /// Index of the recalled line in `sent`; nil if none is recalled.
  private var recalled: Int?
  /// Number of the latest received message.
  public private(set) var latest: UInt32 = 0

  private static let mostRecalled = 100

  /// - Parameter moment: formats milliseconds since 1970.
  public init(moment: @escaping @Sendable (UInt64) -> ChatMoment) {
    self.moment = moment
  }

  public static func == (left: ChatModel, right: ChatModel) -> Bool {
    left.node == right.node && left.peers == right.peers && left.conversations == right.conversations
      && left.current == right.current && left.input == right.input && left.columns == right.columns
      && left.rows == right.rows && left.isServiceThere == right.isServiceThere && left.remark == right.remark
  }

  /// Handles an event, and returns the actions that it causes.
  public mutating func handle(_ event: ChatEvent) -> [ChatAction] {
    var actions: [ChatAction] = []
    switch event {
    case .key(let key): actions = press(key)
    case .resized(let columns, let rows):
      (self.columns, self.rows) = (columns, rows)
      conversations[current]?.scroll = 0
    case .node(let node):
      if !self.node.id.isEmpty, node.id != self.node.id { forgetAll() }
      self.node = node
      remember()
    case .peers(let peers):
      self.peers = Dictionary(peers.map { ($0.id, $0) }) { first, _ in first }
      remember()
    case .files(let files): tell(files)
    case .messages(let messages): add(messages)
    case .stateChanged(let number, let state): change(number) { $0.state = state }
    case .wentByUplink(let number): change(number) { $0.isByUplink = true }
    case .serviceCame:
      isServiceThere = true
      latest = 0
      files = nil
      strangers = [:]
      for key in conversations.keys { conversations[key] = Conversation() }
    case .serviceWent: isServiceThere = false
    case .proof(let peer, let proof): notice(sentence(of: proof, from: peer))
    case .renamed(let peer, let before, let now):
      let sentence = NicknameText.renamed(peer, before: before, now: now)
      for place in [Self.everybody, peer] { conversations[place, default: Conversation()].add(notice: sentence) }
    case .done(let action): if let sentence = sentence(ofDone: action) { notice(sentence) }
    case .failed(let action, let sentence): failed(action, sentence)
    }
    return actions + markRead()
  }

  // MARK: Events of the service

  /// Handles a wipe or a changed identity of the node: messages are erased and listed from the first.
  private mutating func forgetAll() {
    let wasWiped = isServiceThere && conversations.values.contains { $0.hasMessages }
    (latest, files, book, peers) = (0, nil, MeshNameIndex(), [:])
    (conversations, current) = ([Self.everybody: Conversation()], Self.everybody)
    (sent, recalled, completion) = ([], nil, nil)
    if wasWiped { notice("The node was wiped: its messages are erased, and it has a new identity.") }
  }

  private mutating func add(_ messages: [MeshMessageView]) {
    for message in messages where message.number > latest {
      latest = message.number
      if peers[message.sender] == nil, message.sender != node.id {
        strangers[message.sender] = message.nickname
        book.add(message.sender, nickname: message.nickname)
      }
      let isScrolled = message.conversation == current && conversations[current]?.scroll ?? 0 > 0
      let before = conversations[message.conversation]?.entries.count ?? 0
      conversations[message.conversation, default: Conversation()].add(message)
      guard isScrolled else { continue }
      if message.state == .unread, conversations[current]?.firstNew == nil {
        conversations[current]?.firstNew = message.number
      }
      // Messages that are being read stay in place as long as they are stored.
      let grown = latestLineCount
      conversations[current]?.scroll += grown
      if conversations[current]?.entries.count ?? 0 <= before { scroll(by: 0) }
    }
  }

  private mutating func change(_ number: UInt32, _ change: (inout MeshMessageView) -> Void) {
    for key in conversations.keys where conversations[key]?.edit(number, change) == true { return }
  }

  /// Restores the text of a message that could not be sent.
  private mutating func failed(_ action: ChatAction, _ sentence: String) {
    switch action {
    case .say(let text), .tell(_, let text):
      if input.isEmpty { input = InputLine(text.hasPrefix("/") ? "/" + text : text) }
    default: break
    }
    // The user did not request this action, and the next message repeats it.
    if case .markRead = action { return }
    notice(sentence)
  }

  private mutating func remember() {
    book = MeshNameIndex(peers.values)
    for (id, nickname) in strangers where peers[id] == nil { book.add(id, nickname: nickname) }
    if !node.id.isEmpty { book.add(own: node.id, nickname: node.nickname) }
  }

  /// Marks messages as read when their conversation is displayed to its end.
  private mutating func markRead() -> [ChatAction] {
    guard isServiceThere, isLargeEnough, let conversation = conversations[current], conversation.scroll == 0,
      let number = conversation.latestUnread
    else { return [] }
    conversations[current]?.markSeen()
    return [.markRead(number)]
  }

  mutating func notice(_ text: String) {
    conversations[current, default: Conversation()].add(notice: text)
  }

  // MARK: Keys

  private mutating func press(_ key: Key) -> [ChatAction] {
    if key != .tab { completion = nil }
    remark = ""
    switch key {
    case .character(let character): insert(String(character))
    case .paste(let text): insert(text)
    case .enter: return send()
    case .tab: complete()
    case .backspace: input.backspace()
    case .delete: input.delete()
    case .left: input.move(by: -1)
    case .right: input.move(by: 1)
    case .home, .control("a"): input.moveToBegin()
    case .end, .control("e"): input.moveToEnd()
    case .control("u"): input.deleteHead()
    case .control("k"): input.deleteTail()
    case .control("w"): input.deleteWord()
    case .up: recall(-1)
    case .down: recall(1)
    case .pageUp: scroll(by: page)
    case .pageDown: scroll(by: -page)
    case .control("n"), .altDown, .alt("n"): step(1)
    case .control("p"), .altUp, .alt("p"), .backTab: step(-1)
    case .control("g"): openUnread()
    case .control("c"): return [.quit]
    case .control("d"):
      if input.isEmpty { return [.quit] }
      input.delete()
    default: break
    }
    return []
  }

  private mutating func insert(_ text: String) {
    if !input.insert(text) { remark = "A message has at most 64 KiB." }
  }

  private mutating func send() -> [ChatAction] {
    let text = PastedText.trimmed(input.text)
    guard !text.isEmpty else {
      input = InputLine()
      return []
    }
    guard isServiceThere || text == "/quit" || text == "/help" else {
      remark = "The service is not running: nothing can be sent."
      return []
    }
    input = InputLine()
    sent.append(text)
    if sent.count > Self.mostRecalled { sent.removeFirst() }
    recalled = nil
    conversations[current]?.scroll = 0
    conversations[current]?.firstNew = nil
    if text.hasPrefix("/"), !text.hasPrefix("//") { return obey(text) }
    return said(text.hasPrefix("//") ? String(text.dropFirst()) : text)
  }

  func said(_ text: String) -> [ChatAction] {
    [current == Self.everybody ? .say(text) : .tell(peer: current, text)]
  }

  private mutating func complete() {
    let near = book.names.filter { $0.id != node.id }.sorted {
      (peers[$0.id]?.isNear == true ? 0 : 1, $0.name.lowercased()) < (
        peers[$1.id]?.isNear == true ? 0 : 1, $1.name.lowercased()
      )
    }
    completion =
      completion ?? Completion(input.head, commands: ChatWords.commands.map(\.name), names: near.map(\.name))
    if let head = completion?.take() { input.replaceHead(head) }
  }

  private mutating func recall(_ step: Int) {
    let index = (recalled ?? sent.count) + step
    guard index >= 0, index <= sent.count else { return }
    recalled = index
    input = InputLine(index < sent.count ? sent[index] : "")
  }

  // MARK: Conversations

  /// Conversations in order: everybody, peers in range, other peers, blocked peers; each group by name.
  var list: [String] {
    let known = Set(conversations.keys).union(peers.keys).subtracting([Self.everybody])
    let shown = known.filter { id in
      let peer = peers[id]
      return id == current || conversations[id]?.hasMessages == true || peer?.isNear == true
        || peer?.isFavourite == true
    }
    let ordered = shown.map { (id: $0, rank: rank($0), name: book.name(of: $0).lowercased()) }.sorted {
      ($0.rank, $0.name, $0.id) < ($1.rank, $1.name, $1.id)
    }
    return [Self.everybody] + ordered.map(\.id)
  }

  private func rank(_ id: String) -> Int {
    guard let peer = peers[id] else { return 2 }
    return peer.isBlocked ? 3 : peer.isNear ? 0 : 1
  }

  mutating func open(_ id: String) {
    guard id != current else { return }
    conversations[current]?.firstNew = nil
    conversations[current]?.scroll = 0
    current = id
    conversations[id, default: Conversation()].scroll = 0
    let first = conversations[id]?.firstUnread
    conversations[id]?.firstNew = first
  }

  private mutating func step(_ step: Int) {
    let list = list
    let index = (list.firstIndex(of: current) ?? 0) + step
    open(list[(index + list.count) % list.count])
  }

  private mutating func openUnread() {
    let list = list
    let begin = (list.firstIndex(of: current) ?? 0) + 1
    let after = list[begin...] + list[..<begin]
    if let next = after.first(where: { conversations[$0]?.unread ?? 0 > 0 }) {
      open(next)
    } else {
      remark = "Nothing is unread."
    }
  }

  private mutating func scroll(by lines: Int) {
    guard let scroll = conversations[current]?.scroll else { return }
    let most = max(0, lineCount - messageRows)
    conversations[current]?.scroll = min(max(0, scroll + lines), most)
  }
}

/// Files in a chat: transfers appear as notices in their conversations.
extension ChatModel {
  /// Step in percent at which the progress of a file is reported.
  private static let quarter = 25

  /// Adds notices about changed files. Files that were complete at the start are not reported.
  mutating func tell(_ all: [MeshFileView]) {
    for (file, sentence) in news(of: all) {
      let place = file.isPrivate ? file.peer : Self.everybody
      conversations[place, default: Conversation()].add(notice: sentence)
    }
    files = Dictionary(all.map { ($0.number, $0) }) { first, _ in first }
  }

  /// Returns the files whose state has changed, each with a sentence for its conversation.
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

extension ChatModel {
  /// Handles an event without a screen, so that nothing is marked as read.
  mutating func take(_ event: ChatEvent) -> [ChatAction] {
    columns = 0
    return handle(event)
  }

  /// Returns the actions that a line of input causes, and a complaint if it is wrong.
  ///
  /// Each line is independent: a message to everybody, or a command.
  mutating func line(_ text: String) -> (actions: [ChatAction], complaint: String?) {
    let plain = text.unicodeScalars.filter { $0 == "\t" || $0.properties.generalCategory != .control }
    let line = PastedText.trimmed(String(String.UnicodeScalarView(plain)))
    guard !line.isEmpty else { return ([], nil) }
    current = Self.everybody
    remark = ""
    defer { current = Self.everybody }
    guard line.hasPrefix("/"), !line.hasPrefix("//") else {
      return (said(line.hasPrefix("//") ? String(line.dropFirst()) : line), nil)
    }
    let word = line.prefix { !$0.isWhitespace }.lowercased()
    // Lines cannot show a fingerprint for comparison, so /verify takes only a code here.
    let isCode = word == "/verify" && PastedText.trimmed(String(line.dropFirst(word.count))).hasPrefix("bitchat:")
    guard isCode || Self.lineCommands.contains(word) else {
      return ([], "\(ChatText.name(word)) is not available here. A text that begins with a slash: //\u{2026}")
    }
    let actions = obey(line)
    if actions.isEmpty { return ([], remark.isEmpty ? "Usage: \(word) NAME TEXT" : remark) }
    return (actions, nil)
  }

  /// Commands that work without a screen. `/who` only writes lines, so ``ChatLines`` executes it.
  private static let lineCommands = ["/msg", "/all", "/send", "/nick", "/favourite", "/favorite", "/block"]

  /// A message as a line: for people with the time and sanitised, as JSON unchanged.
  func line(of message: MeshMessageView, isJSON: Bool) -> String {
    guard isJSON else {
      let name = book.label(of: message.sender, nickname: message.nickname)
      let direction = (message.isPrivate ? " → you" : "") + (message.isByUplink ? " (uplink)" : "")
      return "\(moment(message.time).time) \(name)\(direction): \(ChatText.plainLine(message.text))"
    }
    let name = book.name(of: message.sender, nickname: message.nickname)
    let object = JSONValue.object([
      .init("message", .int(Int64(message.number))), .init("time", .int(Int64(clamping: message.time))),
      .init("private", .bool(message.isPrivate)), .init("sender", .string(message.sender)),
      .init("name", .string(name)), .init("text", .string(message.text)),
      .init("way", .string(message.isByUplink ? "uplink" : "mesh")),
    ])
    return JSONWriter.write(object, .compact)
  }
}
