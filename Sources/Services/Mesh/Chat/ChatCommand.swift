import CommandLine
import Common
import FullScreen
import Glibc
import Loop
import Terminal
import Tool

/// Runs `earshot chat` on a terminal: connects the model to service and screen.
@LoopActor
final class ChatCommand {
  private let client: Client
  private var model = ChatModel(moment: ChatMoment.local)
  private var screen: FullScreen?
  private var link: ChatLink?
  private var isDrawingSoon = false
  private var end: CheckedContinuation<ExitCode, Never>?

  init(_ client: Client) {
    self.client = client
  }

  /// Whether standard input and output are a terminal that can be redrawn.
  static var isOnTerminal: Bool { isatty(STDIN_FILENO) == 1 && Output.terminal.canRedraw }

  func run() async throws(Failure) -> ExitCode {
    let link = ChatLink(
      client, latest: { [weak self] in self?.model.latest ?? 0 }, onEvent: { [weak self] in self?.handle($0) })
    self.link = link
    defer { link.end() }
    try await link.begin()
    let screen: FullScreen
    do throws(FullScreenError) {
      screen = try FullScreen { [weak self] in self?.happened($0) }
    } catch {
      throw Failure(.failed, "\(error.sentence) Try: earshot chat --lines")
    }
    self.screen = screen
    defer { screen.close() }
    let signals = [SIGTERM, SIGINT, SIGHUP, SIGQUIT].map { signal in
      EventLoop.shared.on(signal: signal) { [weak self] in self?.finish() }
    }
    defer { for signal in signals { signal.cancel() } }
    handle(.resized(columns: screen.columns, rows: screen.rows))
    return await withCheckedContinuation { end = $0 }
  }

  private func finish() {
    end?.resume(returning: .ok)
    end = nil
  }

  private func happened(_ event: FullScreen.Event) {
    guard let screen else { return }
    switch event {
    case .key(.control("l")):
      screen.redrawAll()
      drawSoon()
    case .key(let key): handle(ChatEvent.key(key))
    case .resized: handle(.resized(columns: screen.columns, rows: screen.rows))
    case .ended: finish()
    }
  }

  private func handle(_ event: ChatEvent) {
    for action in model.handle(event) {
      if action == .quit { finish() } else { link?.perform(action) }
    }
    drawSoon()
  }

  /// Draws once for all events of one loop iteration.
  private func drawSoon() {
    guard !isDrawingSoon else { return }
    isDrawingSoon = true
    EventLoop.shared.soon { [weak self] in
      guard let self else { return }
      isDrawingSoon = false
      screen?.draw(model.frame)
    }
  }
}

/// Chat commands of the tool.
public enum ChatTool {
  public static let part = ToolPart(verbs: [verb], status: { _ in "" })

  /// The command `earshot chat`.
  public static let verb = Verb(
    "chat", "Chat with peers on a full screen; without a terminal, by lines of text.",
    options: [
      Option("lines", "Read and write lines also on a terminal."),
      Option("follow", short: "f", "With lines: continue after the end of the input, until interrupted."),
    ]
  ) { client, line async throws(Failure) in
    if ChatCommand.isOnTerminal, !line.flag("lines"), !line.flag("json") {
      return try await ChatCommand(client).run()
    }
    return try await ChatLines(client, line).run()
  }
}
