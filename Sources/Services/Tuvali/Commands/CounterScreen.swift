import Calendar
import Common
import FullScreen
import Terminal
import Tool

/// Screen of `earshot verifier watch` for an operator: the QR code, transfers in progress, credentials that wait for a
/// verdict, and the latest events. It is a value that handles keys and returns choices.
struct CounterScreen: Sendable {
  enum Choice: Sendable, Equatable {
    case judge(path: String, Verdict)
    case leave
    /// Draw every row of the terminal again (Ctrl-L).
    case redraw
    case suspend
  }

  private let note: String
  private let showsCode: Bool
  private let hasKeys: Bool
  private var selected: String?
  /// Time at which the selection last changed without a key press; nil if it never did.
  private var jumped: Instant?
  private var waiting: [WatchedTransfer] = []
  private var news: [Screen.Line] = []
  /// Sentence shown instead of the key help, until the next key.
  private var remark = ""

  /// Maximum number of events, more than the largest terminal shows.
  private static let newsLimit = 200
  /// Time after a change of the list in which keys for a verdict are ignored, because they may be meant for the entry
  /// that has just gone.
  private static let jumpTime = Duration.seconds(1)

  /// - Parameters:
  ///   - note: text at the bottom of the screen.
  ///   - hasKeys: whether the terminal sends keys.
  init(note: String, showsCode: Bool, hasKeys: Bool) {
    (self.note, self.showsCode, self.hasKeys) = (note, showsCode, hasKeys)
  }

  // MARK: Input

  /// Updates the transfers that wait for a verdict.
  mutating func update(_ waiting: [WatchedTransfer], at now: Instant) {
    let before = self.waiting
    self.waiting = waiting
    guard selected == nil || !waiting.contains(where: { $0.view.path.string == selected }) else { return }
    // Selects the entry at the same position, or the last one.
    let index = before.firstIndex { $0.view.path.string == selected } ?? 0
    if selected != nil { jumped = now }
    selected = waiting.isEmpty ? nil : waiting[min(index, waiting.count - 1)].view.path.string
  }

  /// - Parameter date: time of the event, in milliseconds since 1970-01-01 UTC.
  mutating func add(_ report: WatchReport, date: UInt64) {
    let look: Screen.Look =
      switch report.tone {
      case .plain: .plain
      case .good: .good
      case .bad: .bad
      }
    news.append(Screen.Line("\(LocalTime.clock(date)) \(report.sentence)", look))
    if let shown = report.shown { news.append(Screen.Line(Excerpt.line(shown, limit: 120), .dim)) }
    news.removeFirst(max(0, news.count - Self.newsLimit))
  }

  mutating func press(_ key: Key, at now: Instant) -> Choice? {
    remark = ""
    switch key {
    case .up, .character("k"): step(-1)
    case .down, .character("j"): step(1)
    case .home: step(-waiting.count)
    case .end: step(waiting.count)
    case .character("a"), .character("A"): return judge(.accept, now)
    case .character("r"), .character("R"): return judge(.reject, now)
    case .character("q"), .character("Q"), .control("c"): return .leave
    case .control("l"): return .redraw
    case .control("z"): return .suspend
    default: remark = Self.help
    }
    return nil
  }

  private mutating func step(_ count: Int) {
    guard let index = waiting.firstIndex(where: { $0.view.path.string == selected }) else { return }
    selected = waiting[min(max(0, index + count), waiting.count - 1)].view.path.string
    jumped = nil
  }

  private mutating func judge(_ verdict: Verdict, _ now: Instant) -> Choice? {
    guard let selected, let transfer = waiting.first(where: { $0.view.path.string == selected }) else {
      remark = "No credential waits for a verdict."
      return nil
    }
    if let jumped, jumped.duration(to: now) < Self.jumpTime {
      remark = "Now selected: \(transfer.view.name). Press the key again."
      self.jumped = nil
      return nil
    }
    return .judge(path: selected, verdict)
  }

  // MARK: Output

  private static let help = "↑↓ or j k select   a accept   r reject   q quit   Ctrl-L draws again"

  /// All reports, for printing after the screen is closed.
  var log: [String] { news.map(\.text) }

  /// - Parameter date: milliseconds since 1970-01-01 UTC.
  func screen(_ model: WatchModel, at now: Instant, date: UInt64) -> Screen {
    var screen = Screen()
    if showsCode, model.isServiceThere, let verifier = model.verifier, !verifier.uri.isEmpty {
      screen.code = try? VerifierCommand.code(verifier.uri)
      screen.invitation = VerifierCommand.invitation(verifier)
    }
    screen.heading = model.troubles
    screen.bars = model.underWay.map { $0.view.bar($0.view.name, after: $0.seen.duration(to: now)) }
    screen.list = waiting.map { line($0, date) }
    if let transfer = waiting.first(where: { $0.view.path.string == selected }) {
      screen.detail = Self.detail(transfer)
    }
    screen.news = news
    screen.note = note
    guard hasKeys else { return screen }
    let keys = waiting.isEmpty ? "q quit" : (waiting.count > 1 ? "↑↓ select   " : "") + "a accept   r reject   q quit"
    screen.footer = Screen.Line(remark.isEmpty ? keys : remark, remark.isEmpty ? .dim : .bold)
    return screen
  }

  private func line(_ transfer: WatchedTransfer, _ date: UInt64) -> Screen.Line {
    let (view, isSelected) = (transfer.view, hasKeys && transfer.view.path.string == selected)
    let columns = [
      view.name, Self.status(transfer, date), view.verdict, view.sizeText, Moment.short(view.receivedAt, now: date),
    ]
    let text = (isSelected ? "▸ " : "  ") + columns.filter { !$0.isEmpty }.joined(separator: "  ")
    return Screen.Line(text, isSelected ? .selected : view.isLive ? .bold : .plain)
  }

  private static func status(_ transfer: WatchedTransfer, _ date: UInt64) -> String {
    switch transfer.stage {
    case .queued, .taking: return "being stored"
    case .judging: return "being judged"
    case .left, .underWay, .told, .done: break
    }
    let (view, deadline) = (transfer.view, transfer.view.verdictDeadline)
    guard view.isLive else { return "phone left" }
    guard deadline > 0 else { return "phone waits" }
    return "\(deadline > date ? (deadline - date + 999) / 1000 : 0) s left"
  }

  private static func detail(_ transfer: WatchedTransfer) -> String {
    let view = transfer.view
    let phone =
      (view.peer.isEmpty ? "" : "From \(view.peer). ")
      + (view.isLive ? "The phone waits for the verdict." : "A verdict does not reach the phone any more.")
    guard view.hasVerdict else {
      return view.verdict == "pending" ? "\(phone) The credential is being checked." : phone
    }
    let claims = CheckText.claimSummary(transfer.claims)
    return "\(view.verdictText). \(claims.isEmpty ? "" : "\(claims). ")\(phone)"
  }
}

extension Style {
  /// Style of a part of a screen.
  init(_ look: Screen.Look) {
    switch look {
    case .plain: self = .plain
    case .bold: self.init(bold: true)
    case .dim: self.init(dim: true)
    case .good: self.init(.green)
    case .bad: self.init(.yellow)
    case .selected: self.init(bold: true, reverse: true)
    case .code: self = .blackOnWhite
    }
  }
}

/// Sanitised beginning of a text for a terminal.
enum Excerpt {
  private static let lines = 6
  private static let limit = 80 * lines

  /// Returns one line of at most `limit` characters, without control characters.
  static func line(_ text: [UInt8], limit: Int = limit) -> String {
    // A Unicode scalar has at most four bytes in UTF-8.
    let beginning = String(decoding: text.prefix(limit * 4), as: UTF8.self)
    return PrintableText.clean(beginning, limit: limit)
  }

  /// Returns at most six lines, each indented by two columns.
  static func paragraph(_ text: [UInt8]) -> String {
    let width = max(20, Output.terminal.width - 4)
    var rest = Substring(line(text))
    var out: [Substring] = []
    while !rest.isEmpty, out.count < lines {
      out.append(rest.prefix(width))
      rest = rest.dropFirst(width)
    }
    return out.map { "  " + $0 }.joined(separator: "\n") + (rest.isEmpty ? "" : "\n  …")
  }
}
