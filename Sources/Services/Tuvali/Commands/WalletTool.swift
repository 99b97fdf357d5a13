import CommandLine
import Tool
import Wallet

/// Wallet commands of the tool.
public enum WalletTool {
  public static let part = ToolPart(
    verbs: [Verb("wallet", "Send credentials to verifiers.", verbs: [send])],
    status: { objects in TransferTable.text(objects, below: WalletFace.path) }, counters: TransferCounters.wallet)

  private static let send = Verb(
    "send", "Send a credential to the verifier with this QR code, and wait for its verdict.",
    options: [Option("uri", value: .text("URI"), "The text of the verifier's QR code.")],
    arguments: [Argument(.file("FILE"), "The credential; - is standard input.")]
  ) { client, line async throws(Failure) in
    try await SendCommand(client, line).run()
  }
}
