import CommandLine
import Loop
import Tool

/// Commands, status and events of the local broadcast channel for the command-line tool.
public enum NearbyTool {
  public static let part = ToolPart(
    verbs: [
      Verb(
        "nearby", "Send messages to everybody nearby, and receive those of others (PBLEC).",
        verbs: [show, send, cancel, watch, notify, limit], defaultVerb: "show")
    ],
    status: { objects in NearbyView(objects: objects).map { NearbyShown.status($0) } ?? "" },
    event: { NearbySentences.text($0) }, counters: NearbyCounters.meanings)

  private static let show = Verb("show", "Show the state of the channel: peers, notifications, counters.") {
    client, line async throws(Failure) in
    try await NearbyCommand(client, line).show()
  }

  private static let send = Verb(
    "send", "Broadcast a message of up to 24 bytes in clear, and wait until it was sent. Ctrl-C cancels it.",
    options: [
      Option("cut", "Cut the text between two characters if it is too long."),
      Option("no-wait", "End as soon as the message is queued."),
    ],
    arguments: [Argument(.text("TEXT"), "The message, one or more words; - is standard input.", count: .any)]
  ) { client, line async throws(Failure) in
    try await SendNearbyCommand(client, line).run()
  }

  private static let cancel = Verb(
    "cancel", "Cancel a message that waits, or end its broadcast.",
    arguments: [Argument(.text("N"), "The number of the message, as send --no-wait writes it.")]
  ) { client, line async throws(Failure) in
    try await NearbyCommand(client, line).cancel()
  }

  private static let watch = Verb(
    "watch", "Show the last messages and then each new one, until interrupted.",
    options: [Option("limit", short: "n", value: .integer("N", 0...1000), "Begin with the last N messages (20).")]
  ) { client, line async throws(Failure) in
    try await WatchNearbyCommand(client, line).run()
  }

  private static let notify = Verb("notify", "Notify people nearby that somebody wants to talk: once a day.") {
    client, line async throws(Failure) in
    try await NearbyCommand(client, line).notify()
  }

  private static let limit = Verb(
    "limit", "Set how many notifications a day are reported here.",
    arguments: [Argument(.text("N"), "0 to 100; 0 is none.")]
  ) { client, line async throws(Failure) in
    try await NearbyCommand(client, line).limit()
  }
}
