import CommandLine
import Common
import DBus
import Loop
import MeshViews
import Terminal
import Tool

/// `earshot mesh log`: what was said, and with `--follow` what is said from now on.
@LoopActor
final class LogCommand {
  private let client: Client
  private let line: ParsedCommand
  private var state: MeshState?
  /// The number of the last message that was fetched.
  private var last: UInt32 = 0
  /// The conversation that is asked for: a peer ID; nil for all.
  private var peer: String?
  /// What signals told since they were looked at last.
  private var hasNews = false
  private var changes: [(message: Int, state: String)] = []
  private var isGone = false
  private var news: CheckedContinuation<Void, Never>?
  /// The own messages that were written, with what was said of their states.
  private var written: [Int: String] = [:]

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  private var isJSON: Bool { line.flag("json") }

  func run() async throws(Failure) -> ExitCode {
    let state = try await MeshState(client)
    self.state = state
    if let name = line.value("with") { peer = try state.id(of: name) }
    let follows = line.flag("follow")
    // Before the messages are asked for: what comes in between is not lost.
    let signals = follows ? client.onSignal { [weak self] in self?.signal($0) } : nil
    let watch = follows ? client.bus.watchName(client.service) { [weak self] in if $0 == nil { self?.lost() } } : nil
    defer {
      signals?.cancel()
      watch?.cancel()
    }
    try await show(try await fetch(limit: line.integer("limit") ?? Self.usualLimit))
    while follows {
      if !hasNews, changes.isEmpty, !isGone { await withCheckedContinuation { news = $0 } }
      if isGone { throw Failure(.notRunning, "The service ended.") }
      try await follow()
    }
    return .ok
  }

  static let usualLimit = 100

  // MARK: Fetching

  /// The messages after the last one, page by page; of all that there are those at the end.
  private func fetch(limit: Int = .max) async throws(Failure) -> [MeshMessageView] {
    var messages: [MeshMessageView] = []
    while true {
      let page = try await client.meshMessages(after: last)
      // Their numbers grow; a service that says otherwise is not asked for ever.
      guard let newest = page.last?.number, newest > last else { return messages }
      last = newest
      messages = (messages + page.filter { peer == nil || $0.conversation == peer }).suffix(limit)
    }
  }

  private func show(_ messages: [MeshMessageView]) async throws(Failure) {
    guard let state else { return }
    let terminal = Output.terminal
    let writer = LogLine(own: state.node.id, names: state.names, width: terminal.isTerminal ? terminal.width : nil)
    for message in messages {
      if message.sender == state.node.id { written[Int(message.number)] = message.state.rawValue }
      if isJSON {
        Output.json(writer.json(message), pretty: false)
      } else {
        Output.line(writer.text(message))
      }
    }
    if line.flag("seen") { try await mark(messages) }
  }

  /// The last one of each conversation: the service takes the earlier ones along.
  private func mark(_ messages: [MeshMessageView]) async throws(Failure) {
    let unread = messages.filter { $0.state == .unread }
    let newest = Dictionary(unread.map { ($0.conversation, $0.number) }, uniquingKeysWith: max)
    for number in newest.values.sorted() { try await client.mesh("MarkRead", .uint32(number)) }
  }

  // MARK: Following

  private func follow() async throws(Failure) {
    let changes = self.changes
    self.changes = []
    if hasNews {
      hasNews = false
      let messages = try await fetch()
      // Whoever speaks may be new, or have another name.
      if !messages.isEmpty { state = try MeshState(try await client.objects()) }
      try await show(messages)
    }
    guard let state else { return }
    let writer = LogLine(own: state.node.id, names: state.names, width: nil)
    for (message, word) in changes where written[message] != nil && written[message] != word {
      written[message] = word
      if isJSON {
        Output.json(
          .object([.init("message", .int(Int64(message))), .init("state", .string(word))]), pretty: false)
      } else {
        Output.line(writer.text(message, word))
      }
    }
  }

  private func signal(_ message: Message) {
    guard message.path == MeshNames.path else { return }
    if message.member == "StateOfMessageChanged", message.interface == MeshNames.interface,
      let number = message.arguments.first?.asInteger, let word = message.arguments.last?.asString
    {
      changes.append((number, word))
    }
    // Own messages of other programs have no signal of their own: whatever the node tells is a reason to look.
    hasNews = true
    wake()
  }

  private func lost() {
    // The name is unknown, too, before it is first looked up.
    guard state != nil else { return }
    isGone = true
    wake()
  }

  private func wake() {
    news?.resume()
    news = nil
  }
}
