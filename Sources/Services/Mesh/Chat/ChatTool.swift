import CommandLine
import Loop
import Tool

/// Chat commands of the tool.
public enum ChatTool {
  public static let part = ToolPart(verbs: [verb], status: { _ in "" })

  /// `earshot chat`
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
