import CommandLine
import Common
import Glibc
import Loop
import MeshNaming
import MeshViews
import Tool

/// Runs `earshot chat` without a terminal: reads and writes lines. Unread messages come first, then new ones.
@LoopActor
final class ChatLines {
  private let client: Client
  private let isJSON: Bool
  private let follows: Bool
  private var model = ChatModel(moment: ChatMoment.local)
  private var link: ChatLink?
  private var input = LineReader()
  private let reader = SerialWorker("input")
  private var hasFailed = false
  /// Whether the messages that existed at the start were listed, so that later ones are new.
  private var hasBegun = false
  private var position = LinesPosition()
  private var end: CheckedContinuation<Result<Void, Failure>, Never>?
  private var early: Result<Void, Failure>?

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    isJSON = line.flag("json")
    follows = line.flag("follow")
  }

  func run() async throws(Failure) -> ExitCode {
    let link = ChatLink(
      client, isPatient: true, latest: { [weak self] in self?.model.latest ?? 0 },
      onEvent: { [weak self] in self?.handle($0) })
    self.link = link
    defer { link.end() }
    try await link.begin()
    if !link.isThere, !follows {
      throw Failure(.notRunning, "\(client.service) is not running. Try: systemctl start earshotd")
    }
    await link.settled()
    hasBegun = true
    read()
    try await withCheckedContinuation { (continuation: CheckedContinuation<Result<Void, Failure>, Never>) in
      if let early { continuation.resume(returning: early) } else { end = continuation }
    }.get()
    return hasFailed ? .failed : .ok
  }

  private func finish(_ result: Result<Void, Failure>) {
    guard let end else {
      early = early ?? result
      return
    }
    self.end = nil
    end.resume(returning: result)
  }

  // MARK: Input

  /// Reads from a file or a pipe. Reading may block, so another thread does it.
  private func read() {
    reader.offload {
      var bytes = [UInt8](repeating: 0, count: 1 << 16)
      var count: Int
      repeat { count = Glibc.read(STDIN_FILENO, &bytes, bytes.count) } while count < 0 && errno == EINTR
      return Array(bytes.prefix(max(0, count)))
    } then: { [weak self] (bytes: [UInt8]) in
      self?.took(bytes)
    }
  }

  private func took(_ bytes: [UInt8]) {
    for line in bytes.isEmpty ? input.end() : input.take(bytes) { say(line) }
    Task { @LoopActor in
      // Reads no further before the service has accepted these lines: a file may exceed the limit on pending calls.
      await self.link?.taken()
      if !bytes.isEmpty { return self.read() }
      guard !self.follows else { return }
      // All lines are with the service; messages received meanwhile are written before the end.
      self.link?.ask()
      await self.link?.settled()
      self.finish(.success(()))
    }
  }

  private func say(_ line: String) {
    if PastedText.trimmed(line).lowercased() == "/who" {
      for line in model.present { Output.line(line) }
      return
    }
    let (actions, complaint) = model.line(line)
    if let complaint { complain(complaint) }
    for action in actions { link?.perform(action) }
  }

  private func complain(_ sentence: String) {
    hasFailed = true
    Output.complain(sentence)
  }

  // MARK: Output

  private func handle(_ event: ChatEvent) {
    if case .files(let files) = event, !isJSON {
      for (_, sentence) in model.news(of: files) { Output.line(sentence) }
    }
    _ = model.take(event)
    switch event {
    case .messages(let messages): write(messages)
    case .proof(let peer, let proof):
      let sentence = model.sentence(of: proof, from: peer)
      if proof == .proven { Output.line(sentence) } else { complain(sentence) }
    case .renamed(let peer, let before, let now):
      if !isJSON { Output.line(NicknameText.renamed(peer, before: before, now: now)) }
    case .done(let action):
      if !isJSON, let sentence = model.sentence(ofDone: action) { Output.line(sentence) }
    case .failed(.markRead, _): break
    case .failed(_, let sentence): complain(sentence)
    case .serviceWent:
      guard hasBegun else { break }
      if follows {
        Output.complain("The service has ended; waiting for it.")
      } else {
        finish(.failure(Failure(.notRunning, "The service has ended.")))
      }
    case .node(let node): position.begin(node)
    default: break
    }
  }

  private func write(_ messages: [MeshMessageView]) {
    var read: [String: UInt32] = [:]
    for message in position.take(messages, own: model.node.id) {
      Output.line(model.line(of: message, isJSON: isJSON))
      guard message.state == .unread else { continue }
      read[message.conversation] = message.number
    }
    // Messages are marked as read once they are written.
    for number in read.values.sorted() { link?.perform(.markRead(number)) }
  }
}

/// Assembles lines of standard input from the portions that are read.
struct LineReader {
  /// Maximum length of a line, in bytes; the rest is dropped. No message is as long.
  static let longest = 1 << 17

  private var pending: [UInt8] = []

  /// Adds bytes.
  ///
  /// - Returns: the lines that these bytes complete.
  mutating func take(_ bytes: [UInt8]) -> [String] {
    var lines: [String] = []
    for byte in bytes {
      if byte == UInt8(ascii: "\n") {
        lines += end()
      } else if pending.count < Self.longest {
        pending.append(byte)
      }
    }
    return lines
  }

  /// Returns the last line if it is not terminated.
  mutating func end() -> [String] {
    guard !pending.isEmpty else { return [] }
    defer { pending = [] }
    return [String(decoding: pending, as: UTF8.self)]
  }
}

/// Selects the messages that `earshot chat` writes as lines.
///
/// Messages that exist when the chat begins are written if they are unread. Later ones are written whether unread or
/// not: with several programs at one service, the first one marks a message as read for all.
struct LinesPosition: Sendable {
  /// Number of the last message of which it was decided whether to print it.
  private var last: UInt32 = 0
  /// Number of times that the service has listed its messages.
  private var listings = 0
  private var node = ""

  /// Records that the service begins a listing with the node.
  mutating func begin(_ node: MeshView) {
    listings += 1
    // After a wipe, or a restart without a disk, the node has a new identity, and numbers may begin anew.
    if !node.id.isEmpty {
      if !self.node.isEmpty, node.id != self.node { last = 0 }
      self.node = node.id
    }
  }

  /// Returns the messages of other peers that must be written, in order.
  mutating func take(_ messages: [MeshMessageView], own: String) -> [MeshMessageView] {
    var taken: [MeshMessageView] = []
    for message in messages where message.number > last {
      last = message.number
      guard message.sender != own, message.state == .unread || listings > 1 else { continue }
      taken.append(message)
    }
    return taken
  }
}
