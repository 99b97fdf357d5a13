import CommandLine
import Loop
import MeshViews
import Tool

/// Mesh commands of the tool.
public enum MeshTool {
  public static let part = ToolPart(
    verbs: [
      Verb(
        "mesh", "Chat and look around in the Bitchat mesh.",
        verbs: [
          show, say, tell, send, files, log, peers, ping, map, verify, nick, announce, favourite, block, forget, wipe,
          decode,
        ], defaultVerb: "show")
    ],
    status: { objects in MeshView(objects: objects).map { MeshShown.status($0) } ?? "" },
    event: { MeshSentences.text($0) }, counters: MeshCounters.meanings)

  private static let text = Argument(
    .text("TEXT"), "What to say, one or more words; - is standard input.", count: .any)
  private static let peer = Argument(
    .text("PEER"), "A peer: its nickname, its name with four digits (alice#1a2b), or its ID.")
  private static let off = Option("off", "Take it back.")

  private static let show = Verb("show", "Show how the node stands, its nickname, peer ID and fingerprint.") {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).show()
  }

  private static let say = Verb("say", "Say something to everybody.", arguments: [text]) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).say()
  }

  private static let tell = Verb("tell", "Tell one peer something that others cannot read.", arguments: [peer, text]) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).tell()
  }

  private static let send = Verb(
    "send", "Send a file to everybody, or to one peer so that others cannot read it; stays until it is sent.",
    options: [
      Option("large", "Send it although Android phones drop files of more than 256 fragments: about 120 kB."),
      Option("name", value: .text("NAME"), "What others call it; without it the name of FILE."),
      Option("mime", value: .text("TYPE"), "Its type; without it what the content shows."),
      Option("wait", value: .seconds("SECONDS"), "How long to stay; without it until it is sent, for a day at most."),
    ],
    arguments: [
      Argument(.file("FILE"), "The file, of 1 MiB at most; - is standard input."),
      Argument(.text("PEER"), "A peer, as for tell; without it everybody.", count: .optional),
    ]
  ) { client, line async throws(Failure) in
    try await SendFileCommand(client, line).run()
  }

  private static let files = Verb(
    "files", "List the files that came and those that were sent; save, cancel or delete one.",
    options: [
      Option("save", value: .integer("N", 1...Int(UInt32.max)), "Save the content of file N."),
      Option("output", short: "o", value: .file("PATH"), "Where to: a file, or a folder; without it this folder."),
      Option("cancel", value: .integer("N", 1...Int(UInt32.max)), "Send no more of file N."),
      Option("delete", value: .integer("N", 1...Int(UInt32.max)), "Delete file N."),
    ]
  ) { client, line async throws(Failure) in
    try await FilesCommand(client, line).run()
  }

  private static let ping = Verb(
    "ping", "Ask a peer for a sign of life: how long it takes, and over how many hops.", arguments: [peer]
  ) { client, line async throws(Failure) in
    try await PingCommand(client, line).run()
  }

  private static let log = Verb(
    "log", "Show what was said.",
    options: [
      Option("follow", short: "f", "Go on with what is said from now on, until interrupted."),
      Option("limit", short: "n", value: .integer("N", 0...1_000_000), "Only the last N messages (100)."),
      Option("with", value: .text("PEER"), "Only the private conversation with this peer."),
      Option("seen", "Mark what is shown as seen; senders of private messages are told."),
    ]
  ) { client, line async throws(Failure) in
    try await LogCommand(client, line).run()
  }

  private static let peers = Verb(
    "peers", "List the peers that are known.", options: [Option("near", "Only those that are near now.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).peers()
  }

  private static let map = Verb(
    "map", "Draw who has a link with whom.",
    options: [Option("all", "Cut nothing, however many rows that takes.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).map()
  }

  private static let verify = Verb(
    "verify", "Show the QR code that proves who this node is; or check a peer by the text of its code.",
    options: [
      Option("read", "Read the text of a peer's code from standard input."),
      Option("text", "Write the text of the own code only."),
      Option("wait", value: .seconds("SECONDS"), "How long the peer has for its proof (30)."),
    ], arguments: [Argument(.text("CODE"), "The text of a peer's code; - is standard input.", count: .optional)]
  ) { client, line async throws(Failure) in
    try await VerifyCommand(client, line).run()
  }

  private static let nick = Verb(
    "nick", "Give this node another nickname.", arguments: [Argument(.text("NAME"), "The nickname.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).nick()
  }

  private static let announce = Verb("announce", "Tell those nearby now who this node is.") {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).announce()
  }

  private static let favourite = Verb(
    "favourite", "Make a peer a favourite; it is told.", options: [off], arguments: [peer]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).favourite()
  }

  private static let block = Verb("block", "Show nothing more of a peer.", options: [off], arguments: [peer]) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).block()
  }

  private static let forget = Verb("forget", "Forget what is known of a peer.", arguments: [peer]) {
    client, line async throws(Failure) in
    try await MeshCommand(client, line).forget()
  }

  private static let wipe = Verb(
    "wipe", "Erase keys, messages, files, letters and peers, for good. Asks for the own peer ID.",
    options: [Option("confirm", value: .text("ID"), "The own peer ID; nothing is asked then.")]
  ) { client, line async throws(Failure) in
    try await MeshCommand(client, line).wipe()
  }

  private static let decode = Verb(
    "decode", "Write as JSON what packets say, given as hexadecimal digits, one a line. Needs no service.",
    arguments: [Argument(.file("FILE"), "The lines; - is standard input, as is nothing.", count: .optional)],
    need: .nothing
  ) { _, line async throws(Failure) in
    var command = DecodeCommand(line)
    return try command.run()
  }
}
