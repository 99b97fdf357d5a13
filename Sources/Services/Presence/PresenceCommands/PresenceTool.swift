import CommandLine
import Loop
import Tool

/// Commands of private presence for the command-line tool.
public enum PresenceTool {
  public static let part = ToolPart(
    verbs: [
      Verb(
        "presence", "Announce this machine to chosen peers, find known peers, and open streams to them (Thali).",
        verbs: [show, key, add, remove, announce, silence, peers, watch, connect, serve], defaultVerb: "show")
    ],
    // `earshot status` does not query the separate bus name of this service.
    status: { _ in "" }, counters: PresenceRadioCounters.meanings,
    codes: [
      state("idle", "No program uses the radio for private presence: earshot-presenced does not run."),
      state("ready", "Peers can be announced to and found over Bluetooth."),
      state("degraded", "Some functions are missing. Reason names them."),
    ])

  /// The counters of `earshot-presenced`.
  public static let daemonPart = ToolPart(counters: PresenceCounters.table)

  private static func state(_ code: String, _ meaning: String) -> CodeMeaning {
    CodeMeaning(code, kind: "state of the Bluetooth of private presence", meaning)
  }

  private static let peer = Argument(.text("PEER"), "The name of a known peer.")

  private static let show = verb("show", "Show the state: what is announced, how this machine is reached, counters.") {
    command async throws(Failure) in
    try await command.show()
  }

  private static let key = verb("key", "Write the public key of this machine, for peers to add.") {
    command async throws(Failure) in
    try await command.key()
  }

  private static let add = verb(
    "add", "Add a known peer.",
    arguments: [
      Argument(.text("NAME"), "A name of your choice."),
      Argument(.text("KEY"), "The peer's public key, as earshot presence key writes it on the peer's machine."),
    ]
  ) { command async throws(Failure) in
    try await command.add()
  }

  private static let remove = verb("remove", "Forget a known peer, and end its streams.", arguments: [peer]) {
    command async throws(Failure) in
    try await command.remove()
  }

  private static let announce = verb(
    "announce", "Announce this machine to known peers. This replaces an earlier announcement.",
    options: [Option("for", value: .seconds("SECONDS"), "End after this time, at least 10 s; by default never.")],
    arguments: [Argument(.text("PEER"), "The names of 1 to 15 known peers.", count: .any)]
  ) { command async throws(Failure) in
    try await command.announce()
  }

  private static let silence = verb("silence", "End the announcement. Open streams stay open.") {
    command async throws(Failure) in
    try await command.silence()
  }

  private static let peers = verb("peers", "List the known peers, and which of them are nearby.") {
    command async throws(Failure) in
    try await command.peers()
  }

  private static let watch = verb("watch", "Write a line whenever a known peer comes or goes, until interrupted.") {
    command async throws(Failure) in
    try await command.watch()
  }

  private static let connect = verb(
    "connect",
    "Open a stream to a service of a peer nearby: send standard input, and write received bytes to standard output.",
    arguments: [peer, Argument(.text("SERVICE"), "The name of the service.")]
  ) { command async throws(Failure) in
    try await command.connect()
  }

  private static let serve = verb(
    "serve", "Offer a local service to known peers, until interrupted.",
    arguments: [
      Argument(
        .text("SERVICE"),
        "The name of the service. The service named default also receives streams that name no service."),
      Argument(.text("ADDRESS"), "The absolute path of a Unix socket, or 127.0.0.1:PORT or [::1]:PORT."),
    ]
  ) { command async throws(Failure) in
    try await command.serve()
  }

  private static func verb(
    _ name: String, _ summary: String, options: [Option] = [], arguments: [Argument] = [],
    _ body: @escaping @LoopActor @Sendable (PresenceCommand) async throws(Failure) -> ExitCode
  ) -> Verb {
    Verb(name, summary, options: options, arguments: arguments, of: PresenceNames.target) {
      client, line async throws(Failure) in
      try await client.connect()
      return try await body(PresenceCommand(client, line))
    }
  }
}
