import CommandLine
import Common
import Loop
import Tool
import Verifier
import Wallet

/// The verbs `verifier`, `transfers` and `check` of the tool.
public enum VerifierTool {
  public static let part = ToolPart(
    verbs: [
      Verb("verifier", "Receive credentials.", verbs: [start, stop, show, watch]), TransfersTool.verb,
      CheckCommand.verb,
    ],
    status: { objects in status(objects) }, event: { TransferSentences.text($0) }, counters: TransferCounters.verifier,
    codes: TransferCodes.all + CheckCodes.all)

  private static let start = Verb("start", "Begin to wait for wallets, and show the QR code.") {
    client, line async throws(Failure) in
    try await VerifierCommand(client, line).start()
  }

  private static let stop = Verb("stop", "Stop waiting for wallets.") { client, line async throws(Failure) in
    try await VerifierCommand(client, line).stop()
  }

  private static let show = Verb(
    "show", "Show the QR code for the next wallet.", options: [Option("uri", "Write its text only.")], need: .look
  ) { client, line async throws(Failure) in
    try await VerifierCommand(client, line).show()
  }

  private static let watch = Verb(
    "watch", "Show the QR code, progress, and what is received, until interrupted.",
    options: [
      Option("once", "End after one transfer. The command fails if the transfer failed."),
      Option("waiting", "Also take credentials that were received before."),
      Option("accept", "Accept each credential, after it is stored."),
      Option("reject", "Reject each credential."),
      Option(
        "output", short: "o", value: .file("PATH"),
        "Store each credential in this folder, or under this name, in which {} stands for the name of the transfer. "
          + "With --once, a file."),
      Option("for", value: .seconds("SECONDS"), "End after this time; with --once that is a failure."),
      Option("show", "Show the beginning of each credential; with --json all of it."),
      Option("quiet", short: "q", "Show no QR code."),
      Option("note", value: .text("TEXT"), "Show this line of text all the time."),
      EventProgram.option("each event (needs --output)"),
    ]
  ) { client, line async throws(Failure) in
    try await WatchCommand(client, line).run()
  }

  @LoopActor
  private static func status(_ objects: ToolPart.Objects) -> String {
    guard let verifier = objects[VerifierAdaptor.path.string]?[VerifierAdaptor.interfaceName],
      let view = VerifierView(objects)
    else { return "" }
    func text(_ name: String) -> String { verifier[name]?.text ?? "" }
    var lines = ["  verifier  \(text("State"))  as \(text("Name")), dialects \(text("Dialects"))"]
    if view.isStopped {
      lines.append("            Start it with: earshot verifier start")
    } else if !view.uri.isEmpty {
      lines.append("            \(view.uri)")
    } else {
      lines.append("            \(view.noCode)")
    }
    if !text("Storage").isEmpty { lines.append("            Storage: \(text("Storage"))") }
    if !text("Checker").isEmpty { lines.append("            Checker: \(text("Checker"))") }
    lines += TransferCounters.summary(verifier).map { ["            \($0)"] } ?? []
    return lines.map { $0 + "\n" }.joined() + TransferTable.text(objects, below: VerifierAdaptor.path)
  }
}

/// Commands for manual handling of transfers.
enum TransfersTool {
  static let verb = Verb(
    "transfers", "List transfers and results; fetch, accept, reject or erase what was received; cancel a transfer.",
    verbs: [list, show, get, accept, reject, cancel, erase], defaultVerb: "list")

  private static let name = Argument(
    .text("NAME"), "The transfer: credential7, or 7; wallet/credential7 if this machine is the wallet.")

  private static let list = Verb(
    "list", "List the transfers of this run, or with --history the results of earlier ones.",
    options: [
      Option("history", "List the stored results of the verifier, the newest first."),
      Option("limit", value: .integer("N", 1...100_000), "Maximum results of --history (100)."),
    ], need: .groupUnless(option: "history")
  ) { client, line async throws(Failure) in
    if line.flag("history") { return try await HistoryCommand(client, line).run() }
    return try await TransfersCommand(client, line).list()
  }

  private static let show = Verb(
    "show", "Show the properties of a transfer, the checker's verdict on its credential, and the signed claims.",
    arguments: [name]
  ) { client, line async throws(Failure) in
    try await TransfersCommand(client, line).show()
  }

  private static let get = Verb(
    "get", "Fetch a credential. The service then erases it if it is accepted.",
    options: [
      Option(
        "output", short: "o", value: .file("PATH"),
        "A file, a folder, or a name in which {} stands for the name of the transfer (standard output).")
    ], arguments: [name]
  ) { client, line async throws(Failure) in
    try await TransfersCommand(client, line).get()
  }

  private static let accept = Verb("accept", "Accept a credential.", arguments: [name]) {
    client, line async throws(Failure) in
    try await TransfersCommand(client, line).accept()
  }

  private static let reject = Verb("reject", "Reject a credential; it is erased.", arguments: [name]) {
    client, line async throws(Failure) in
    try await TransfersCommand(client, line).reject()
  }

  private static let cancel = Verb(
    "cancel", "End a transfer that is under way, and its link.", arguments: [name]
  ) { client, line async throws(Failure) in
    try await TransfersCommand(client, line).cancel()
  }

  private static let erase = Verb(
    "erase", "Erase a credential; a wallet that waits is notified that it was rejected.", arguments: [name]
  ) { client, line async throws(Failure) in
    try await TransfersCommand(client, line).erase()
  }
}

/// The verb `wallet` of the tool.
public enum WalletTool {
  public static let part = ToolPart(
    verbs: [Verb("wallet", "Send credentials to verifiers.", verbs: [send])],
    status: { objects in TransferTable.text(objects, below: WalletAdaptor.path) }, counters: TransferCounters.wallet)

  private static let send = Verb(
    "send", "Send a credential to the verifier with this QR code, and wait for its verdict.",
    options: [Option("uri", value: .text("URI"), "The text of the verifier's QR code.")],
    arguments: [Argument(.file("FILE"), "The credential; - is standard input.")]
  ) { client, line async throws(Failure) in
    try await SendCommand(client, line).run()
  }
}
