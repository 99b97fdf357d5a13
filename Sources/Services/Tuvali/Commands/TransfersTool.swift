import CommandLine
import Tool

/// Commands for manual handling of transfers.
enum TransfersTool {
  static let verb = Verb(
    "transfers", "List transfers; fetch, accept, reject or erase what was received; cancel a transfer.",
    verbs: [list, show, get, accept, reject, cancel, erase], defaultVerb: "list")

  private static let name = Argument(
    .text("NAME"), "The transfer: credential7, or 7; a wallet's own: wallet/credential7.")

  private static let list = Verb("list", "List the transfers.") { client, line async throws(Failure) in
    try await TransfersCommand(client, line).list()
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
        "A file, a folder, or a name with {} for the transfer's (standard output).")
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
