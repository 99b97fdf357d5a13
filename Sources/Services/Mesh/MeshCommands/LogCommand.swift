import Calendar
import CommandLine
import Common
import DBus
import Loop
import MeshNaming
import MeshViews
import Terminal
import Tool

/// Runs `earshot mesh log`: lists messages, and with `--follow` new ones.
@LoopActor
final class LogCommand {
  private let client: Client
  private let line: ParsedCommand
  private let program: EventProgram?
  private var state: MeshState?
  /// Number of the last fetched message.
  private var last: UInt32 = 0
  /// Peer ID of the requested conversation; nil for all.
  private var peer: String?
  /// Whether signals have arrived since the service was last queried.
  private var hasNews = false
  private var changes: [(message: Int, state: String)] = []
  private var isGone = false
  private var news: CheckedContinuation<Void, Never>?
  /// Delivery states that were printed last for own messages, by number.
  private var written: [Int: String] = [:]

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
    program = EventProgram(line)
  }

  private var isJSON: Bool { line.flag("json") }

  func run() async throws(Failure) -> ExitCode {
    if program != nil, !line.flag("follow") {
      throw Failure(.usage, "--exec needs --follow: the program runs for new messages.")
    }
    try program?.check()
    do throws(Failure) {
      return try await list()
    } catch {
      // The program handles the last messages of a service that ends.
      await program?.finish()
      throw error
    }
  }

  private func list() async throws(Failure) -> ExitCode {
    let state = try await MeshState(client)
    self.state = state
    if let name = line.value("with") { peer = try state.id(of: name) }
    let follows = line.flag("follow")
    // Subscribes before fetching, so that no message is missed.
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

  /// Fetches the messages after the last one, page by page, and returns the last `limit`.
  private func fetch(limit: Int = .max) async throws(Failure) -> [MeshMessageView] {
    var messages: [MeshMessageView] = []
    while true {
      let page = try await client.meshMessages(after: last)
      // Ends if the numbers do not grow, so that a faulty service cannot cause an endless loop.
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

  /// Marks the last message of each conversation as read; the service includes the earlier ones.
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
      // A sender may be new, or have a new name.
      if !messages.isEmpty { state = try MeshState(try await client.objects()) }
      try await show(messages)
      post(messages)
    }
    guard let state else { return }
    let writer = LogLine(own: state.node.id, names: state.names, width: nil)
    for (message, word) in changes where written[message] != nil && written[message] != word {
      written[message] = word
      let event = JSONValue.object([.init("message", .int(Int64(message))), .init("state", .string(word))])
      program?.post(event)
      if isJSON {
        Output.json(event, pretty: false)
      } else {
        Output.line(writer.text(message, word))
      }
    }
  }

  /// Runs the program for new messages.
  private func post(_ messages: [MeshMessageView]) {
    guard let program, let state else { return }
    let writer = LogLine(own: state.node.id, names: state.names, width: nil)
    for message in messages { program.post(writer.json(message)) }
  }

  private func signal(_ message: Message) {
    guard message.path == MeshNames.path else { return }
    if message.member == "MessageStateChanged", message.interface == MeshNames.interface,
      let number = message.arguments.first?.asInteger, let word = message.arguments.last?.asString
    {
      changes.append((number, word))
    }
    // Own messages sent by other programs have no signal, so every change of the node triggers a look.
    hasNews = true
    wake()
  }

  private func lost() {
    // The owner of the name is also unknown before the first look-up.
    guard state != nil else { return }
    isGone = true
    wake()
  }

  private func wake() {
    news?.resume()
    news = nil
  }
}

/// Message as `earshot mesh log` shows it.
struct LogLine {
  /// Peer ID of this node.
  let own: String
  let names: MeshNameIndex
  /// Width of the terminal in columns; nil if the output is a file.
  let width: Int?
  /// Formats a time given in milliseconds since 1970.
  var time: (UInt64) -> String = LocalTime.text

  /// Formats a message: `2026-08-17 12:01:40  <alice>: hello`, or `<bob> → <alice> (delivered): hello` for a private
  /// one, with `uplink` in the parentheses if it was sent or received over the uplink. Further lines are indented.
  func text(_ message: MeshMessageView) -> String {
    var who = names.label(of: message.sender, nickname: message.nickname)
    if message.isPrivate {
      who += " → " + names.label(of: message.sender == own ? message.conversation : own)
      let marks = (message.sender == own ? [message.state.rawValue] : []) + (message.isByUplink ? ["uplink"] : [])
      if !marks.isEmpty { who += " (\(marks.joined(separator: ", ")))" }
    }
    return MeshText.paragraph("\(time(message.time))  \(who): ", message.text, width: width)
  }

  /// Line about the state of an own message.
  func text(_ message: Int, _ state: String) -> String { "  message \(message): \(MeshText.line(state))" }

  func json(_ message: MeshMessageView) -> JSONValue {
    .object([
      .init("message", .int(Int64(message.number))), .init("time", .unsigned(message.time)),
      .init("conversation", message.isPrivate ? .string(message.conversation) : .null),
      .init("sender", .string(message.sender)),
      .init("name", .string(names.name(of: message.sender, nickname: message.nickname))),
      .init("nickname", .string(message.nickname)), .init("own", .bool(message.sender == own)),
      .init("text", .string(message.text)), .init("state", .string(message.state.rawValue)),
      .init("way", .string(message.isByUplink ? "uplink" : "mesh")),
    ])
  }
}
