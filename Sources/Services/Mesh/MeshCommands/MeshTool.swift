import CommandLine
import Loop
import MeshViews
import Tool

/// The verb `mesh` of the tool, with all its subcommands.
public enum MeshTool {
  public static let part = ToolPart(
    verbs: [
      Verb(
        "mesh", "Chat in the Bitchat mesh, and show its peers and links.",
        verbs: [
          show, say, tell, send, files, log, peers, ping, map, verify, nick, announce, favourite, block, forget, uplink,
          wipe, decode,
        ], defaultVerb: "show")
    ],
    status: { objects in MeshView(objects: objects).map { MeshShown.status($0) } ?? "" },
    event: { MeshSentences.text($0) }, counters: MeshCounters.meanings, codes: MeshCodes.all)

  /// The counters and codes of private messages over Nostr. Its command is one of the mesh.
  public static let uplinkPart = ToolPart(counters: UplinkCounters.table, codes: UplinkCodes.all)

  private static let text = Argument(
    .text("TEXT"), "The message, one or more words; - reads standard input.", count: .any)
  private static let peer = Argument(
    .text("PEER"), "A peer: its nickname, its name with four digits (alice#1a2b), or its ID.")
  private static let off = Option("off", "Remove the mark.")

  private static let show = Verb("show", "Show the node's state, nickname, peer ID and fingerprint.") {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).show()
  }

  private static let say = Verb("say", "Send a public message to everybody.", arguments: [text]) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).say()
  }

  private static let tell = Verb("tell", "Send an encrypted private message to one peer.", arguments: [peer, text]) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).tell()
  }

  private static let send = Verb(
    "send", "Send a file to everybody, or encrypted to one peer; waits until it is sent.",
    options: [
      Option("large", "Allow more than 256 fragments (about 120 kB), which Android phones drop."),
      Option("name", value: .text("NAME"), "File name for recipients; default: the name of FILE."),
      Option("mime", value: .text("TYPE"), "MIME type; default: detected from the content."),
      Option("wait", value: .seconds("SECONDS"), "How long to wait; default: until the file is sent, at most a day."),
    ],
    arguments: [
      Argument(.file("FILE"), "The file, of at most 1 MiB; - is standard input."),
      Argument(.text("PEER"), "A peer, as for tell; default: everybody.", count: .optional),
    ]
  ) { client, line async throws(Failure) in
    try await SendFileCommand(client, line).run()
  }

  private static let files = Verb(
    "files", "List received and sent files; save, cancel or delete one.",
    options: [
      Option("save", value: .integer("N", 1...Int(UInt32.max)), "Save the content of file N."),
      Option("output", short: "o", value: .file("PATH"), "Destination file or folder; default: the current folder."),
      Option("cancel", value: .integer("N", 1...Int(UInt32.max)), "Stop sending file N."),
      Option("delete", value: .integer("N", 1...Int(UInt32.max)), "Delete file N."),
    ]
  ) { client, line async throws(Failure) in
    try await FilesCommand(client, line).run()
  }

  private static let ping = Verb(
    "ping", "Ping a peer; show the round-trip time and the number of hops.", arguments: [peer]
  ) { client, line async throws(Failure) in
    try await PingCommand(client, line).run()
  }

  private static let log = Verb(
    "log", "Show public and private messages.",
    options: [
      Option("follow", short: "f", "Continue with new messages until interrupted."),
      Option("limit", short: "n", value: .integer("N", 0...1_000_000), "Only the last N messages (100)."),
      Option("with", value: .text("PEER"), "Only the private conversation with this peer."),
      Option("seen", "Mark the shown messages as seen; senders of private ones are notified."),
      EventProgram.option("each new message and delivery state (needs --follow)"),
    ]
  ) { client, line async throws(Failure) in
    try await LogCommand(client, line).run()
  }

  private static let peers = Verb(
    "peers", "List the known peers.", options: [Option("near", "Only peers in range.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).peers()
  }

  private static let map = Verb(
    "map", "Draw a map of the links between peers.",
    options: [Option("all", "Show the whole map, however many rows it has.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).map()
  }

  private static let verify = Verb(
    "verify", "Show this node's verification code as a QR code; or verify a peer by the text of its code.",
    options: [
      Option("read", "Read the text of a peer's code from standard input."),
      Option("text", "Write only the text of this node's code."),
      Option("wait", value: .seconds("SECONDS"), "How long to wait for the peer's proof (30)."),
    ], arguments: [Argument(.text("CODE"), "The text of a peer's code; - is standard input.", count: .optional)]
  ) { client, line async throws(Failure) in
    try await VerifyCommand(client, line).run()
  }

  private static let nick = Verb(
    "nick", "Set the nickname of this node.", arguments: [Argument(.text("NAME"), "The nickname.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).nick()
  }

  private static let announce = Verb("announce", "Announce this node to its neighbours now.") {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).announce()
  }

  private static let favourite = Verb(
    "favourite", "Mark a peer as a favourite, and notify it.", options: [off], arguments: [peer]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).favourite()
  }

  private static let block = Verb(
    "block",
    "Block a peer: its messages are not shown.", options: [off], arguments: [peer]
  ) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).block()
  }

  private static let forget = Verb("forget", "Remove all data about a peer.", arguments: [peer]) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).forget()
  }

  private static let uplink = Verb(
    "uplink", "Show private messages outside of the mesh: state, reason, Nostr key, relays, counters.",
    options: [Option("key", "Write only the Nostr key of this node.")], of: UplinkCommand.target
  ) { client, line async throws(Failure) in
    try await UplinkCommand(client, line).run()
  }

  private static let wipe = Verb(
    "wipe", "Erase keys, messages, files, envelopes and peers for good. Asks for this node's peer ID.",
    options: [Option("confirm", value: .text("ID"), "This node's peer ID, instead of the question.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).wipe()
  }

  private static let decode = Verb(
    "decode", "Decode packets to JSON, given in hexadecimal digits, one per line. Needs no service.",
    arguments: [Argument(.file("FILE"), "A file with the lines; - or nothing: standard input.", count: .optional)],
    need: .nothing
  ) { _, line async throws(Failure) in
    var command = DecodeCommand(line)
    return try command.run()
  }
}
