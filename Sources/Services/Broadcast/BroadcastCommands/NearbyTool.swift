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
    event: { NearbySentences.text($0) }, counters: NearbyCounters.meanings, codes: codes)

  private static let codes = [
    CodeMeaning("Cancelled", kind: "end of a broadcast", "A program cancelled the message, or the service stopped."),
    CodeMeaning(
      "CutShort", kind: "end of a broadcast", "The broadcast ended before its time was over, so fewer people have it.",
      remedy: "Send the message again."),
    state("stopped", "The channel neither sends nor receives."),
    state("waiting", "The stored record of notifications is being loaded, or there is no radio."),
    state("listening", "Messages can be received and sent."),
    state("degraded", "Some functions are missing. Reason names them."),
  ]

  private static func state(_ code: String, _ meaning: String) -> CodeMeaning {
    CodeMeaning(code, kind: "state of the local broadcast channel", meaning)
  }

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
    options: [
      Option("limit", short: "n", value: .integer("N", 0...1000), "Begin with the last N messages (20)."),
      EventProgram.option("each new message and notification"),
    ]
  ) { client, line async throws(Failure) in
    try await WatchNearbyCommand(client, line).run()
  }

  private static let notify = Verb("notify", "Notify people nearby that somebody wants to talk: once a day.") {
    client, line async throws(Failure) in
    try await NearbyCommand(client, line).notify()
  }

  private static let limit = Verb(
    "limit", "Set how many notifications a day are reported on this machine.",
    arguments: [Argument(.text("N"), "0 to 100; 0 is none.")]
  ) { client, line async throws(Failure) in
    try await NearbyCommand(client, line).limit()
  }
}

/// State of the local broadcast channel, formatted for `earshot nearby` and `earshot status`.
enum NearbyShown {
  /// One line for each value that the caller may see.
  static func text(_ view: NearbyView) -> String {
    let rows: [(String, String)] = [
      ("state", view.state), ("reason", view.reason), ("peers", view.peers.map { "\($0) in the last minute" } ?? ""),
      ("notified", notifications(view)),
      ("counters", NearbyCounters.summary(view).map { "\($0) All: earshot status --counters" } ?? ""),
    ]
    return rows.filter { !$0.1.isEmpty }.map { name, value in
      name + String(repeating: " ", count: 13 - name.count) + value + "\n"
    }.joined()
  }

  static func json(_ view: NearbyView) -> JSONValue {
    func number(_ value: Int?) -> JSONValue { value.map { .int(Int64($0)) } ?? .null }
    let counters = view.counters.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, .int(Int64($0.value))) }
    return .object([
      .init("state", .string(view.state)), .init("reason", .string(view.reason)),
      .init("listening", .bool(view.isListening)), .init("peers", number(view.peers)),
      .init("notifyLimit", number(view.notifyLimit)), .init("notifiesLeft", number(view.notifiesLeft)),
      .init("counters", .object(counters)),
    ])
  }

  /// Formats the lines of `earshot status`.
  static func status(_ view: NearbyView) -> String {
    var line = "  nearby    \(view.state)"
    if let peers = view.peers { line += "  \(peers) \(peers == 1 ? "peer" : "peers")" }
    let below = [view.reason, NearbyCounters.summary(view) ?? ""].filter { !$0.isEmpty }.map { "            \($0)" }
    return ([line] + below).map { $0 + "\n" }.joined()
  }

  private static func notifications(_ view: NearbyView) -> String {
    guard let limit = view.notifyLimit, let left = view.notifiesLeft else { return "" }
    return limit == 0 ? "never" : "\(limit) times a day at most, \(left) left today"
  }
}

/// The meanings of the counters of the local broadcast channel.
enum NearbyCounters {
  /// A sentence with the most important counters; nil if nothing was sent or received.
  static func summary(_ view: NearbyView) -> String? {
    let (received, sent) = (view.counters["ReceivedMessages"] ?? 0, view.counters["SentMessages"] ?? 0)
    guard received + sent > 0 else { return nil }
    return "Since its start: \(received) messages received, \(sent) sent."
  }

  static let meanings = CounterMeanings(
    "nearby", BroadcastNames.path, BroadcastNames.interface,
    [
      "ReceivedMessages": "messages received",
      "SentMessages": "messages broadcast for their 4 s",
      "UnsentMessages": "messages that were not broadcast for their 4 s",
      "Stops": "received messages whose end was received, too",
      "Notifications": "received notifications that somebody nearby wants to talk",
      "LinesLeftOut": "journal entries that were omitted: strangers cause at most one of each kind in a minute",
      "MalformedReports": "advertising reports whose AD structures are malformed",
      "NamesWithoutDigit": "names that begin with ~ without an ASCII digit after it",
      "BadTexts": "texts that are not UTF-8, or too long",
      "ControlCharacters": "texts with control characters",
      "Duplicates": "repeated scan results of a message: most scan results are",
      "LateCopies": "copies of a message that were received after its end",
      "TooFast": "messages that were dropped, because they came less than 4 s after the last one of the same peer",
      "PeersFull": "messages of new peers that were dropped, because 256 peers were known",
      "TooManyNewPeers": "messages of new peers that were dropped, because more than 20 came in a second",
      "AddressChanges": "messages that were not reported, because only the sender's address was new (FollowAddresses=)",
      "BadBeacons": "notifications of a wrong length",
      "RepeatedBeacons": "notifications that had been received before",
      "TooManyBeacons": "notifications beyond NotifyLimit=, which are not reported",
    ])
}
