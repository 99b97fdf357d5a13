import CommandLine
import Common
import DBus
import Loop
import Tool
import Wallet

/// `earshot wallet send`: gives a credential to a verifier, and stays until it knows the verdict.
@LoopActor
final class SendCommand {
  private let client: Client
  private let line: ParsedCommand
  private var transfer: TransferView?
  /// Signals that came before the call that began the transfer was answered.
  private var changes: [String: [String: DBusValue]] = [:]
  private var end: CheckedContinuation<Void, Never>?
  private var isGone = false

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func run() async throws(Failure) -> ExitCode {
    guard let uri = line.value("uri") else {
      throw Failure(.usage, "--uri is missing: the text of the verifier's QR code.")
    }
    let file = try InputFile(line.argument("FILE") ?? "-", name: "credential")
    try await client.connect()
    let signals = client.onSignal { [weak self] in self?.signal($0) }
    let watch = client.bus.watchName(client.service) { [weak self] in if $0 == nil { self?.lost() } }
    defer {
      signals.cancel()
      watch.cancel()
    }
    let values = try await client.call(
      WalletFace.path, WalletFace.interfaceName, "SendFile", [.string(uri), .descriptor(file.descriptor)],
      of: Feature("wallet", section: "Wallet"))
    guard let path = values.first?.asObjectPath else { throw Failure(.failed, "The service's answer has no transfer.") }
    let transfer = TransferView(path, [:])
    self.transfer = transfer
    transfer.update(try await client.properties(path, TransferView.interface))
    transfer.update(changes[path.string] ?? [:])
    if !transfer.isEnded, !isGone { await withCheckedContinuation { end = $0 } }
    if transfer.isFailed { await transfer.complete(client) }
    return try report(transfer)
  }

  private func signal(_ message: Message) {
    guard let path = message.path?.string, let (interface, values) = message.changedProperties,
      interface == TransferView.interface, path.hasPrefix(WalletFace.path.string + "/")
    else { return }
    changes[path, default: [:]].merge(values) { $1 }
    guard let transfer, transfer.path.string == path else { return }
    transfer.update(values)
    if transfer.isEnded { return finish() }
    if !line.flag("json") {
      Output.progress(transfer.progress(transfer.state == "searching" ? "Searching" : "Sending"))
    }
  }

  private func lost() {
    // The name is unknown, too, before it is first looked up.
    guard transfer != nil else { return }
    isGone = true
    finish()
  }

  private func finish() {
    end?.resume()
    end = nil
  }

  private func report(_ transfer: TransferView) throws(Failure) -> ExitCode {
    if !line.flag("json"), Output.terminal.isTerminal { Output.progress("") }
    guard transfer.isEnded else { throw Failure(.notRunning, "The service ended during the transfer.") }
    if line.flag("json") {
      let error: String? = transfer.isFailed ? transfer.error : nil
      Output.json(.object([.init("state", .string(transfer.state)), .init("error", .optional(error))]))
      return switch transfer.state {
      case "accepted": .ok
      case "undecided": .undecided
      default: .failed
      }
    }
    switch transfer.state {
    case "accepted":
      Output.line("The verifier accepted the credential.")
      return .ok
    case "undecided": throw Failure(.undecided, "The verifier has the credential, and gave no verdict.")
    case "rejected": throw Failure(.failed, "The verifier rejected the credential.")
    default: throw Failure(.failed, transfer.error)
    }
  }
}
