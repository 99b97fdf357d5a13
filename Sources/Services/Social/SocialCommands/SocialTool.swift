import CommandLine
import Loop
import Tool

/// Commands of the social server for the command-line tool.
public enum SocialTool {
  /// The server, which is a daemon of its own.
  private static let daemon = ToolTarget(busName: "org.earshot.Social", unit: "earshot-sociald")

  public static let part = ToolPart(
    verbs: [
      Verb(
        "social", "Run the social server (ASN): users, blobs, messages.",
        verbs: [status, users, keys, ls, cat, put, say, rm, exec, watch, gc, backup, export, `import`],
        defaultVerb: "status")
    ], status: { _ in "" })

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

  private static let status = verb("status", "Show the state of the server: addresses, keys, figures, counters.") {
    command async throws(Failure) in
    try await command.status()
  }

  private static let users = verb("users", "List the users, forums, bridges and places.") {
    command async throws(Failure) in
    try await command.users()
  }

  private static let keys = Verb(
    "keys", "Create users, and store their keys for exec and watch.", verbs: [newKeys, importKeys], defaultVerb: "new")

  private static let newKeys = verb(
    "new", "Create a user, and write its keys. The server does not store the secret keys.",
    options: [Option("output", short: "o", value: .file("FILE"), "Write to this file, which only its owner can read.")],
    arguments: [
      Argument(.choice("KIND", ["actual", "forum", "bridge", "place"]), "What to create (actual).", count: .optional)
    ]
  ) { command async throws(Failure) in
    try await command.newKeys()
  }

  private static let importKeys = verb(
    "import", "Store the keys of a user on the server's machine, for exec and watch.",
    arguments: [
      Argument(.text("NAME"), "A name for the keys."),
      Argument(.file("FILE"), "The keys, as keys new writes them; - is standard input, the default.", count: .optional),
    ]
  ) { command async throws(Failure) in
    try await command.importKeys()
  }

  private static let server = [
    Option("url", value: .text("URL"), "The server: unix:PATH, tcp:HOST:PORT or ws://HOST:PORT/PATH (this machine's)."),
    Option("service", value: .text("KEY:NONCE"), "The service's key and nonce, as status shows them (this machine's)."),
  ]

  private static let exec = Verb(
    "exec", "Log in to a server as a user, carry out a command of the protocol, and quit.",
    options: server + [Option("input", value: .file("FILE"), "The input of the command; - is standard input.")],
    arguments: [
      Argument(.text("KEYS"), "The name of the user's keys (keys import)."),
      Argument(.text("WORD"), "The words of the command: ls, cat NAME, echo, mark, vouch, …", count: .any),
    ], of: daemon
  ) { client, line async throws(Failure) in
    try await client.connect()
    return try await SessionCommand(client, line).exec()
  }

  private static let watch = Verb(
    "watch", "Log in to a server as a user, and write a line for each blob that arrives, until interrupted.",
    options: server, arguments: [Argument(.text("KEYS"), "The name of the user's keys (keys import).")],
    of: daemon
  ) { client, line async throws(Failure) in
    try await client.connect()
    return try await SessionCommand(client, line).watch()
  }

  private static let ls = verb(
    "ls", "List names.",
    options: [
      Option("after", value: .text("NAME"), "Begin behind this name."),
      Option("limit", short: "n", value: .integer("N", 1...1_000_000), "List at most N names."),
    ],
    arguments: [Argument(.text("REFERENCE"), reference, count: .optional)]
  ) { command async throws(Failure) in
    try await command.list()
  }

  private static let cat = verb(
    "cat", "Write the contents of blobs to standard output.", arguments: [Argument(.text("REFERENCE"), reference)]
  ) { command async throws(Failure) in
    try await command.cat()
  }

  private static let put = verb(
    "put", "Store a blob.",
    options: [Option("owner", value: .text("USER"), "Store it in this user's directory.")],
    arguments: [
      Argument(.text("NAME"), "The name in the directory."),
      Argument(.file("FILE"), "The content; - is standard input, which is the default.", count: .optional),
    ]
  ) { command async throws(Failure) in
    try await command.put()
  }

  private static let say = verb(
    "say", "Send a message to a user or a forum.",
    arguments: [
      Argument(.text("USER"), user),
      Argument(.text("TEXT"), "What to say, one or more words; - is standard input.", count: .any),
    ]
  ) { command async throws(Failure) in
    try await command.say()
  }

  private static let rm = verb(
    "rm", "Remove blobs. Removing the removal before gc brings them back.",
    arguments: [Argument(.text("REFERENCE"), reference)]
  ) { command async throws(Failure) in
    try await command.remove()
  }

  private static let gc = verb(
    "gc", "Purge removed blobs for good.",
    options: [
      Option("dry-run", "List what would be purged."),
      Option("older-than", value: .seconds("SECONDS"), "Purge only blobs older than this."),
    ]
  ) { command async throws(Failure) in
    try await command.collect()
  }

  private static let backup = verb(
    "backup", "Write all blobs to a new file, as one SQLite database.",
    arguments: [Argument(.file("FILE"), "A file that does not exist.")]
  ) { command async throws(Failure) in
    try await command.backUp()
  }

  private static let export = verb(
    "export", "Write all blobs as the tree of files of the original servers.",
    arguments: [Argument(.file("DIRECTORY"), "A directory that does not exist, where the server may write.")]
  ) { command async throws(Failure) in
    try await command.transfer("Export")
  }

  private static let `import` = verb(
    "import", "Read a tree of files of an original server into the store.",
    arguments: [Argument(.file("DIRECTORY"), "A directory that the server may read.")]
  ) { command async throws(Failure) in
    try await command.transfer("Import")
  }
}
