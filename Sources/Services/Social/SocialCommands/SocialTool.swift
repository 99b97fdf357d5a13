import CommandLine
import Loop
import Tool

/// Commands of the social server for the command-line tool.
public enum SocialTool {
  /// The social server, which is a separate daemon.
  private static let daemon = ToolTarget(busName: "org.earshot.Social", unit: "earshot-sociald")

  public static let part = ToolPart(
    verbs: [
      Verb(
        "social", "Run the social server (ASN): users, blobs, messages.",
        verbs: [
          status, users, keys, join, ls, cat, put, say, rm, exec, watch, gc, backup, export, `import`, serve,
        ],
        defaultVerb: "status")
    ], status: { _ in "" },
    counters: CounterMeanings("social server", SocialCommand.path, SocialCommand.interface, SocialCommand.meanings))

  private static let userKeys = "The name of the user's keys (keys import); with a slash in it, a file of keys."
  private static let reference = "A sum, a user, a name, or USER/NAME, with unique prefixes, * and ?."
  private static let user = "The user's public encryption key, or at least 4 digits of it."

  private static func verb(
    _ name: String, _ summary: String, options: [Option] = [], arguments: [Argument] = [],
    _ body: @escaping @LoopActor @Sendable (SocialCommand) async throws(Failure) -> ExitCode
  ) -> Verb {
    Verb(name, summary, options: options, arguments: arguments, of: daemon) {
      client, line async throws(Failure) in
      try await client.connect()
      return try await body(SocialCommand(client, line))
    }
  }

  /// Makes a command that the daemon executes, or, with the option `url`, the tool itself.
  private static func verb(
    _ name: String, _ summary: String, options: [Option] = [], arguments: [Argument] = [],
    remote: @escaping @LoopActor @Sendable (RemoteCommand) async throws(Failure) -> ExitCode,
    local: @escaping @LoopActor @Sendable (SocialCommand) async throws(Failure) -> ExitCode
  ) -> Verb {
    Verb(
      name, summary, options: options + elsewhere, arguments: arguments, need: .groupUnless(option: "url"), of: daemon
    ) {
      client, line async throws(Failure) in
      if line.value("url") != nil { return try await remote(try RemoteCommand(line)) }
      try await client.connect()
      return try await local(SocialCommand(client, line))
    }
  }

  private static let status = verb("status", "Show the state of the server: addresses, keys, figures, counters.") {
    command async throws(Failure) in
    try await command.status()
  }

  private static let users = verb(
    "users", "List the users, forums, bridges and places.",
    remote: { command async throws(Failure) in try await command.users() },
    local: { command async throws(Failure) in try await command.users() })

  private static let keys = Verb(
    "keys", "Create users, and store their keys for exec and watch.", verbs: [newKeys, importKeys], defaultVerb: "new")

  private static let newKeys = verb(
    "new", "Create a user, and write its keys. The server does not store the secret keys.",
    options: [Option("output", short: "o", value: .file("FILE"), "Write to this file, which only its owner can read.")],
    arguments: [
      Argument(.choice("KIND", ["actual", "forum", "bridge", "place"]), "What to create (actual).", count: .optional)
    ],
    remote: { command async throws(Failure) in try await command.newKeys() },
    local: { command async throws(Failure) in try await command.newKeys() })

  private static let importKeys = verb(
    "import", "Store the keys of a user on the server's machine, for exec and watch.",
    arguments: [
      Argument(.text("NAME"), "A name for the keys."),
      Argument(.file("FILE"), "The keys, as keys new writes them; - is standard input, the default.", count: .optional),
    ]
  ) { command async throws(Failure) in
    try await command.importKeys()
  }

  private static let url = Option(
    "url", value: .text("URL"),
    "The server: unix:PATH, tcp:HOST:PORT, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH (this machine's).")
  private static let service = Option(
    "service", value: .text("KEY:NONCE"), "The service's key and nonce, as status shows them (this machine's).")
  private static let trust = Option(
    "trust", value: .file("FILE"), "The certificates by which a server at wss: is trusted, in PEM (the system's).")
  private static let server = [url, service]
  /// Options of the commands for a server at a URL.
  private static let elsewhere = [
    url, service,
    Option(
      "keys", value: .file("FILE"), "With --url: the file of the user's keys, or the name of a systemd credential."),
    trust,
  ]

  private static let join = Verb(
    "join", "Make keys, and become a user of a server by the first login (NewUsers=anyone).",
    options: server + [trust],
    arguments: [Argument(.file("FILE"), "The file for the keys. Keys that the file already has are used.")],
    need: .groupUnless(option: "url"), of: daemon
  ) { client, line async throws(Failure) in
    try await JoinCommand(client, line).run()
  }

  private static let serve = Verb(
    "serve", "Run a server in the foreground, without systemd and D-Bus.",
    options: [
      Option("new-users", value: .choice("WHO", ["admin", "anyone"]), "Who may create users (anyone)."),
      Option("admin", value: .file("FILE"), "The file of the administrator's keys (nobody is the administrator)."),
      Option("certificate", value: .file("FILE"), "The certificate for wss: in PEM. SIGHUP reads it again."),
      Option("certificate-key", value: .file("FILE"), "The private key of the certificate in PEM."),
    ],
    arguments: [
      Argument(.file("DIRECTORY"), "The directory of the blobs and of the service's key; it is created if needed."),
      Argument(
        .text("ADDRESS"), "unix:/PATH, tcp:HOST:PORT, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH.", count: .any),
    ], need: .nothing
  ) { _, line async throws(Failure) in
    try await ServeCommand(line).run()
  }

  private static let exec = Verb(
    "exec", "Log in to a server as a user, carry out a command of the protocol, and quit.",
    options: server + [trust, Option("input", value: .file("FILE"), "The input of the command; - is standard input.")],
    arguments: [
      Argument(.text("KEYS"), userKeys),
      Argument(.text("WORD"), "The words of the command: ls, cat NAME, echo, mark, vouch, …", count: .any),
    ], need: .groupUnless(option: "url"), of: daemon
  ) { client, line async throws(Failure) in
    if let path = line.argument("KEYS"), path.contains("/") {
      return try await RemoteCommand(line, keys: path).exec()
    }
    try await client.connect()
    return try await SessionCommand(client, line).exec()
  }

  private static let watch = Verb(
    "watch", "Log in to a server as a user, and write a line for each blob that arrives, until interrupted.",
    options: server + [trust], arguments: [Argument(.text("KEYS"), userKeys)],
    need: .groupUnless(option: "url"), of: daemon
  ) { client, line async throws(Failure) in
    if let path = line.argument("KEYS"), path.contains("/") {
      return try await RemoteCommand(line, keys: path).watch()
    }
    try await client.connect()
    return try await SessionCommand(client, line).watch()
  }

  private static let ls = verb(
    "ls", "List names.",
    options: [
      Option("after", value: .text("NAME"), "List only names after this one."),
      Option("limit", short: "n", value: .integer("N", 1...1_000_000), "List at most N names."),
    ],
    arguments: [Argument(.text("REFERENCE"), reference, count: .optional)],
    remote: { command async throws(Failure) in try await command.list() },
    local: { command async throws(Failure) in try await command.list() })

  private static let cat = verb(
    "cat", "Write the contents of blobs to standard output.", arguments: [Argument(.text("REFERENCE"), reference)],
    remote: { command async throws(Failure) in try await command.cat() },
    local: { command async throws(Failure) in try await command.cat() })

  private static let put = verb(
    "put", "Store a blob.",
    options: [Option("owner", value: .text("USER"), "Store the blob in this user's directory.")],
    arguments: [
      Argument(.text("NAME"), "The name in the directory."),
      Argument(.file("FILE"), "The content; - is standard input, which is the default.", count: .optional),
    ],
    remote: { command async throws(Failure) in try await command.put() },
    local: { command async throws(Failure) in try await command.put() })

  private static let say = verb(
    "say", "Send a message to a user or a forum.",
    arguments: [
      Argument(.text("USER"), user),
      Argument(.text("TEXT"), "The message, one or more words; - is standard input.", count: .any),
    ],
    remote: { command async throws(Failure) in try await command.say() },
    local: { command async throws(Failure) in try await command.say() })

  private static let rm = verb(
    "rm", "Remove blobs. Removing the removal before gc brings them back.",
    arguments: [Argument(.text("REFERENCE"), reference)],
    remote: { command async throws(Failure) in try await command.remove() },
    local: { command async throws(Failure) in try await command.remove() })

  private static let gc = verb(
    "gc", "Purge removed blobs for good.",
    options: [
      Option("dry-run", "List what would be purged."),
      Option("older-than", value: .seconds("SECONDS"), "Purge only blobs older than this."),
    ],
    remote: { command async throws(Failure) in try await command.collect() },
    local: { command async throws(Failure) in try await command.collect() })

  private static let backup = verb(
    "backup", "Write all blobs to a new file, as one SQLite database.",
    arguments: [Argument(.file("FILE"), "A file that does not exist.")]
  ) { command async throws(Failure) in
    try await command.backUp()
  }

  private static let export = verb(
    "export", "Write all blobs as a directory tree in the format of the original ASN servers.",
    arguments: [Argument(.file("DIRECTORY"), "A directory that does not exist, where the server may write.")]
  ) { command async throws(Failure) in
    try await command.transfer("Export")
  }

  private static let `import` = verb(
    "import", "Read a directory tree in the format of the original ASN servers into the store.",
    arguments: [Argument(.file("DIRECTORY"), "A directory that the server may read.")]
  ) { command async throws(Failure) in
    try await command.transfer("Import")
  }
}
