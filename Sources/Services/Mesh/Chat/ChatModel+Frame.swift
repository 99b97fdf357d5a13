import FullScreen
import MeshViews
import Terminal

extension ChatModel {
  typealias Run = Frame.Run

  /// Minimum number of columns of the terminal. A smaller terminal shows only a sentence.
  static let leastColumns = 40
  static let leastRows = 8
  /// Minimum number of columns of a terminal that shows the list of conversations.
  private static let leastForList = 60
  private static let indent = 6

  var isLargeEnough: Bool { columns >= Self.leastColumns && rows >= Self.leastRows }
  /// Number of rows for messages: all but the title, the status line and the input.
  var messageRows: Int { rows - 3 }
  /// Number of rows by which a page key scrolls.
  var page: Int { max(1, messageRows - 1) }

  /// Number of columns of the list, without its border; 0 without a list.
  private var listWidth: Int { columns >= Self.leastForList ? min(28, max(19, columns / 4 - 1)) : 0 }
  /// Number of columns for messages.
  private var messageWidth: Int { listWidth > 0 ? columns - listWidth - 1 : columns }

  /// Current content of the terminal.
  public var frame: Frame {
    guard isLargeEnough else {
      let text = "Too small: \(Self.leastColumns)×\(Self.leastRows) is needed, this is \(columns)×\(rows)."
      return Frame(rows: DisplayText.wrap(text, to: columns).prefix(rows).map { [Run($0)] })
    }
    let messages = messageLines
    let list = listRows
    var lines = [title]
    for row in 0..<messageRows {
      var line = listWidth > 0 ? list[row] + [Run("│", Style(dim: true))] : []
      line += messages[row].fitted(to: messageWidth)
      lines.append(line)
    }
    lines.append(status)
    let prompt = "› "
    let window = input.window(columns - 2)
    lines.append([Run(prompt, Style(bold: true)), Run(window.text)])
    return Frame(rows: lines, cursor: Frame.Place(row: rows - 1, column: 2 + window.cursor))
  }

  // MARK: Title and status

  private var title: [Run] {
    let style = Style(reverse: true)
    let own = ChatText.name(node.nickname.isEmpty ? book.name(of: node.id) : node.nickname) + " · \(stateWords) "
    let ownWidth = min(DisplayText.width(own), columns / 2)
    let left = [Run(" " + heading, Style(bold: true, reverse: true)), Run(details, style)]
    return left.fitted(to: columns - ownWidth, fill: style) + [Run(DisplayText.cut(own, to: ownWidth), style)]
  }

  private var heading: String { current == Self.everybody ? "# everybody" : ChatText.label(book, current) }

  private var details: String {
    guard current != Self.everybody else {
      let near = peers.values.count { $0.isNear }
      return near == 0 ? "" : " · \(near) near"
    }
    guard let peer = peers[current] else { return " · not known now" }
    return words(of: peer).map { " · " + $0 }.joined()
  }

  /// Distance of a peer, and its marks.
  func words(of peer: MeshPeerView) -> [String] {
    var words: [String] = []
    if peer.isDirect {
      words.append(peer.rssi.map { "neighbour, \($0) dBm" } ?? "neighbour")
    } else {
      words.append(peer.isNear ? "\(peer.hops) hops away" : "not near")
    }
    if peer.isVerified { words.append("verified") }
    if peer.isFavourite { words.append("favourite") }
    if peer.isBlocked { words.append("blocked") }
    return words
  }

  private var stateWords: String {
    guard isServiceThere else { return "no service" }
    return switch node.state {
    case "connected": node.links == 1 ? "1 link" : "\(node.links) links"
    case "alone": "alone"
    case "waitingForClock": "waiting for the clock"
    case "stopped": "stopped"
    default: DisplayText.settled(ChatText.line(node.state))
    }
  }

  private var status: [Run] {
    let scroll = conversations[current]?.scroll ?? 0
    let runs: [Run]
    if !remark.isEmpty {
      runs = [Run(" " + remark, Style(.yellow, bold: true))]
    } else if !isServiceThere {
      runs = [Run(" The service is not running; waiting for it.", Style(.red, bold: true))]
    } else if scroll > 0 {
      runs = [Run(" ↓ \(scroll) more lines below: PgDn", Style(.yellow))]
    } else if listWidth == 0, let waiting = waitingElsewhere {
      runs = [Run(" " + waiting, Style(.yellow))]
    } else if !node.reason.isEmpty {
      runs = [Run(" " + ChatText.line(node.reason), Style(.yellow))]
    } else {
      runs = [Run(" Ctrl-N, Ctrl-P: conversations   PgUp, PgDn: older   Tab: completes   /help", Style(dim: true))]
    }
    return runs.fitted(to: columns)
  }

  private var waitingElsewhere: String? {
    let names = list.filter { $0 != current && conversations[$0]?.unread ?? 0 > 0 }.map {
      $0 == Self.everybody ? "everybody" : ChatText.label(book, $0)
    }
    return names.isEmpty ? nil : "Unread (Ctrl-G): " + names.joined(separator: ", ")
  }

  // MARK: The list

  private var listRows: [[Run]] {
    let all = list
    let room = messageRows
    let index = all.firstIndex(of: current) ?? 0
    // Keeps the open conversation visible.
    let begin = all.count <= room ? 0 : min(max(0, index - room / 2), all.count - room)
    let shown = all[begin..<min(all.count, begin + room)]
    var rows = shown.map(listRow)
    let below = all[min(all.count, begin + room)...]
    let above = all[..<begin]
    if !rows.isEmpty, let more = Self.more(below.count, unread(below), "↓"), index < begin + rows.count - 1 {
      rows[rows.count - 1] = [Run(more, Style(dim: true))].fitted(to: listWidth)
    }
    if !rows.isEmpty, let more = Self.more(above.count, unread(above), "↑"), index > begin {
      rows[0] = [Run(more, Style(dim: true))].fitted(to: listWidth)
    }
    let empty = [Run(String(repeating: " ", count: listWidth))]
    return rows + [[Run]](repeating: empty, count: max(0, room - rows.count))
  }

  private func unread(_ ids: some Sequence<String>) -> Int { ids.reduce(0) { $0 + (conversations[$1]?.unread ?? 0) } }

  private static func more(_ count: Int, _ unread: Int, _ arrow: String) -> String? {
    count == 0 ? nil : "\(arrow) \(count + 1) more" + (unread > 0 ? ", \(unread) new" : "")
  }

  private func listRow(_ id: String) -> [Run] {
    let isCurrent = id == current
    let unread = conversations[id]?.unread ?? 0
    let peer = peers[id]
    let isAway = id != Self.everybody && peer?.isNear != true
    let style = Style(bold: unread > 0, dim: isAway && unread == 0 && !isCurrent, reverse: isCurrent)
    let count = unread == 0 ? "" : unread > 99 ? "99+" : "\(unread)"
    let flag = peer.map { $0.isBlocked ? "×" : $0.isVerified ? "✓" : $0.isFavourite ? "★" : " " } ?? " "
    let end = flag + String(repeating: " ", count: 3 - count.count) + count
    let signal = id == Self.everybody ? "#" : peer.map(Self.signal) ?? " "
    let name = id == Self.everybody ? "everybody" : book.name(of: id)
    let room = listWidth - 2 - end.count
    let begin = [Run(signal + " ", style), Run(ChatText.name(name, width: room), style)]
    return begin.fitted(to: listWidth - end.count, fill: style)
      + [Run(String(end.prefix(1)), style), Run(String(end.dropFirst()), unread > 0 ? bold(style) : style)]
  }

  private func bold(_ style: Style) -> Style {
    var style = style
    style.colour = .yellow
    return style
  }

  /// Signal strength or hops of a peer, in one column.
  private static func signal(_ peer: MeshPeerView) -> String {
    guard peer.isDirect else { return peer.hops == 0 ? " " : peer.hops > 9 ? "+" : "\(peer.hops)" }
    guard let strength = peer.rssi else { return "•" }
    return switch strength {
    case (-60)...: "█"
    case -72..<(-60): "▆"
    case -84..<(-72): "▄"
    default: "▂"
    }
  }

  // MARK: Messages

  /// Visible rows of messages, exactly `messageRows`, the latest at the bottom.
  private var messageLines: [[Run]] {
    let conversation = conversations[current] ?? Conversation()
    let lines = lines(atLeast: messageRows + conversation.scroll)
    let end = max(0, lines.count - conversation.scroll)
    let shown = Array(lines[max(0, end - messageRows)..<end])
    if shown.isEmpty { return emptyLines }
    return [[Run]](repeating: [], count: messageRows - shown.count) + shown
  }

  private var emptyLines: [[Run]] {
    let text =
      current == Self.everybody
      ? "No messages yet. Everybody in the mesh can read what you write here."
      : "No messages yet. What you write here is encrypted for this peer."
    let lines = DisplayText.wrap(text, to: messageWidth).prefix(messageRows).map { [Run($0, Style(dim: true))] }
    return [[Run]](repeating: [], count: messageRows - lines.count) + lines
  }

  /// Number of lines of the displayed conversation.
  var lineCount: Int { isLargeEnough ? lines(atLeast: .max).count : 0 }

  /// Number of lines of the displayed conversation's latest entry.
  var latestLineCount: Int {
    guard isLargeEnough, let conversation = conversations[current], !conversation.entries.isEmpty else { return 0 }
    return lines(of: conversation.entries.count - 1, in: conversation).count
  }

  /// Returns the last lines of the displayed conversation: at least `wanted`, or all if there are fewer.
  private func lines(atLeast wanted: Int) -> [[Run]] {
    guard let conversation = conversations[current] else { return [] }
    var pieces: [[[Run]]] = []
    var count = 0
    for index in conversation.entries.indices.reversed() where count < wanted {
      let piece = lines(of: index, in: conversation)
      pieces.append(piece)
      count += piece.count
    }
    return pieces.reversed().flatMap { $0 }
  }

  private func lines(of index: Int, in conversation: Conversation) -> [[Run]] {
    switch conversation.entries[index] {
    case .notice(let text):
      let lines = DisplayText.wrap(text, to: messageWidth - Self.indent)
      return lines.enumerated().map { number, line in
        [
          Run(number == 0 ? "   -- " : String(repeating: " ", count: Self.indent) + "", Style(dim: true)),
          Run(line, Style(.cyan)),
        ]
      }
    case .message(let message, let paragraphs):
      let moment = moment(message.time)
      var lines: [[Run]] = []
      if day(before: index, in: conversation) != moment.day { lines.append(rule(moment.day)) }
      if conversation.firstNew == message.number { lines.append(rule("new", Style(.yellow))) }
      return lines + self.lines(of: message, paragraphs, at: moment.time)
    }
  }

  private func day(before index: Int, in conversation: Conversation) -> String? {
    for case .message(let message, _) in conversation.entries[..<index].reversed() { return moment(message.time).day }
    return nil
  }

  private func rule(_ text: String, _ style: Style = Style(dim: true)) -> [Run] {
    let room = max(0, messageWidth - DisplayText.width(text) - 2)
    let left = String(repeating: "─", count: room / 2)
    return [Run("\(left) \(text) \(String(repeating: "─", count: room - room / 2))", style)]
  }

  private func lines(of message: MeshMessageView, _ paragraphs: [String], at time: String) -> [[Run]] {
    let isOwn = message.sender == node.id
    let name = ChatText.label(book, message.sender, nickname: message.nickname) + ":"
    let width = messageWidth - Self.indent
    var texts: [String] = []
    for (number, paragraph) in paragraphs.enumerated() {
      let lines = DisplayText.wrap(number == 0 ? name + " " + paragraph : paragraph, to: width)
      texts += lines.isEmpty ? [""] : lines
    }
    let nameStyle = Style(isOwn ? .plain : Self.colour(of: message.sender), bold: true)
    var rows: [[Run]] = texts.enumerated().map { number, text in
      guard number == 0 else { return [Run(String(repeating: " ", count: Self.indent) + text)] }
      guard text.hasPrefix(name) else { return [Run(time + " ", Style(dim: true)), Run(text, nameStyle)] }
      return [Run(time + " ", Style(dim: true)), Run(name, nameStyle), Run(String(text.dropFirst(name.count)))]
    }
    let marks = Self.marks(of: message, isOwn: isOwn)
    guard !marks.isEmpty, let last = rows.last else { return rows }
    if last.width + 1 + marks.width <= messageWidth {
      rows[rows.count - 1] = last + [Run(" ")] + marks
    } else {
      rows.append([Run(String(repeating: " ", count: Self.indent))] + marks)
    }
    return rows
  }

  /// The delivery state of an own message, and whether a message was sent or received over the uplink.
  private static func marks(of message: MeshMessageView, isOwn: Bool) -> [Run] {
    let tick = isOwn ? tick(message.state) ?? [] : []
    guard message.isByUplink else { return tick }
    return tick + [Run(tick.isEmpty ? "uplink" : " uplink", Style(dim: true))]
  }

  /// Delivery state. "Read" and "delivered" are also distinguishable without colours.
  private static func tick(_ state: MeshMessageView.State) -> [Run]? {
    switch state {
    case .waiting: [Run("·", Style(dim: true))]
    case .sent: [Run("✓", Style(dim: true))]
    case .delivered: [Run("✓✓")]
    case .read: [Run("✓✓ read", Style(.green, bold: true))]
    case .failed: [Run("✗ failed", Style(.red, bold: true))]
    case .unread, .seen, .unknown: nil
    }
  }

  private static func colour(of peer: String) -> Style.Colour {
    let colours = Style.Colour.allCases.filter { $0 != .plain && $0 != .red }
    return colours[peer.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xFFFF } % colours.count]
  }
}
