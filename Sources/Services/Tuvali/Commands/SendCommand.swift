import CommandLine
import Common
import DBus
import Loop
import Tool
import Wallet

/// Runs `earshot wallet send`: sends a credential to a verifier, and waits for the verdict.
@LoopActor
final class SendCommand {
  private let client: Client
  private let line: ParsedCommand
  private var transfer: TransferView?
  /// Signals received before the reply to the call that began the transfer.
  private var changes: [String: [String: DBusValue]] = [:]
  private var end: CheckedContinuation<Void, Never>?
  private let begin = EventLoop.shared.now
  private var isGone = false
  /// State of the transfer when it was cancelled; nil if it was not.
  private var stateAtCancel: String?
  /// Whether the command ends before the verdict arrives. The service continues to wait for it.
  private var isLeft = false

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
    return try await Interruption.hold(
      unanswered:
        "The service does not answer, and may send the credential later. To cancel the transfer when it does: "
        + "earshot transfers, then earshot transfers cancel wallet/credentialN"
    ) { [self] interruption throws(Failure) in
      interruption.onSignal { [weak self] in self?.cancel() }
      return try await send(uri, file, interruption)
    }
  }

  private func send(_ uri: String, _ file: InputFile, _ interruption: Interruption) async throws(Failure) -> ExitCode {
    let signals = client.onSignal { [weak self] in self?.signal($0) }
    let watch = client.bus.watchName(client.service) { [weak self] in if $0 == nil { self?.lost() } }
    defer {
      signals.cancel()
      watch.cancel()
    }
    let values = try await client.call(
      WalletAdaptor.path, WalletAdaptor.interfaceName, "SendFile", [.string(uri), .descriptor(file.descriptor)],
      of: Feature("wallet", section: "Wallet"))
    guard let path = values.first?.asObjectPath else { throw Failure(.failed, "The service's answer has no transfer.") }
    transfer = TransferView(path, [:])
    if interruption.signal != nil { cancel() }
    transfer?.update(try await client.properties(path, TransferView.interface))
    transfer?.update(changes[path.string] ?? [:])
    if transfer?.isEnded == false, !isGone, !isLeft { await withCheckedContinuation { end = $0 } }
    if transfer?.isFailed == true {
      let properties = await client.transferProperties(path)
      transfer?.update(properties)
    }
    return try report(transfer ?? TransferView(path, [:]))
  }

  /// Cancels the transfer after an interruption, unless the verifier already has the credential.
  private func cancel() {
    guard let transfer, !transfer.isEnded else { return }
    let path = transfer.path
    stateAtCancel = transfer.state
    Task { @LoopActor in
      do throws(Failure) {
        // Directly after the reply to Send, no signal has reported the state.
        if transfer.state.isEmpty {
          let properties = try await client.properties(path, TransferView.interface)
          self.transfer?.update(properties)
          stateAtCancel = self.transfer?.state
        }
        if stateAtCancel == "received" {
          isLeft = true
          return finish()
        }
        try await client.call(path, TransferView.interface, "Disconnect")
      } catch {
        // A transfer that has just ended cannot be disconnected; a signal reports its end.
        guard error.code != .failed else { return }
        Output.complain(
          "\(error.text)\nThe transfer may still run. To cancel: earshot transfers cancel \(TransferTable.name(path))")
      }
    }
  }

  private func signal(_ message: Message) {
    guard let path = message.path?.string, let (interface, values) = message.changedProperties,
      interface == TransferView.interface, path.hasPrefix(WalletAdaptor.path.string + "/")
    else { return }
    changes[path, default: [:]].merge(values) { $1 }
    guard transfer?.path.string == path else { return }
    transfer?.update(values)
    guard let transfer else { return }
    if transfer.isEnded { return finish() }
    if !line.flag("json") {
      let bar = transfer.bar(
        transfer.state == "searching" ? "Searching" : "Sending", after: begin.duration(to: EventLoop.shared.now))
      Output.progress(bar.line(width: Output.terminal.width - 1))
    }
  }

  private func lost() {
    // The owner of the name is also unknown before the first look-up.
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
    if isLeft {
      throw Failure(
        .undecided,
        "The verifier has the credential already. The service waits for the verdict: earshot transfers show "
          + TransferTable.name(transfer.path)
      )
    }
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
    default: throw Failure(.failed, stateAtCancel.map(Self.cancelled(in:)) ?? transfer.error)
    }
  }

  private nonisolated static func cancelled(in state: String) -> String {
    state == "transferring"
      ? "Cancelled. The verifier has received at most a part of the credential."
      : "Cancelled. Nothing of the credential was sent."
  }
}
