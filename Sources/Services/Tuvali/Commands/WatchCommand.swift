import CommandLine
import Common
import DBus
import Glibc
import Loop
import Terminal
import Tool
import Verifier

/// `earshot verifier watch`: stands beside the kiosk, and takes what it receives.
@LoopActor
final class WatchCommand {
  private let client: Client
  private let line: ParsedCommand
  private let isJSON: Bool
  private var transfers: [String: TransferView] = [:]
  private var handled: Set<String> = []
  private var shownURI = ""
  private var end: CheckedContinuation<Result<ExitCode, Failure>, Never>?
  private var early: Result<ExitCode, Failure>?
  private var registrations: [Registration] = []

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
    isJSON = line.flag("json")
  }

  func run() async throws(Failure) -> ExitCode {
    try await client.connect()
    registrations = [
      client.onSignal { [weak self] in self?.signal($0) },
      client.bus.watchName(client.service) { [weak self] owner in
        if owner == nil, self?.isReady == true {
          self?.finish(.failure(Failure(.notRunning, "The service has ended.")))
        }
      },
    ]
    let objects = try await client.objects()
    isReady = true
    if let verifier = objects[VerifierFace.path.string]?[VerifierFace.interfaceName] { try verifierChanged(verifier) }
    if !isJSON { Output.line("Waiting for wallets.") }
    for (path, interfaces) in objects.sorted(by: { ($0.key.utf8.count, $0.key) < ($1.key.utf8.count, $1.key) }) {
      guard let properties = interfaces[TransferView.interface] else { continue }
      add(path, properties, isOld: true)
    }
    let result = await withCheckedContinuation { continuation in
      if let early { continuation.resume(returning: early) } else { end = continuation }
    }
    registrations = []
    return try result.get()
  }

  private var isReady = false

  private func finish(_ result: Result<ExitCode, Failure>) {
    guard let end else {
      early = early ?? result
      return
    }
    self.end = nil
    end.resume(returning: result)
  }

  // MARK: What the service says

  private func signal(_ message: Message) {
    guard let path = message.path else { return }
    if message.member == "InterfacesAdded", let added = message.arguments.first?.asObjectPath,
      let properties = message.arguments.last?[TransferView.interface]?.asDictionary
    {
      add(added.string, properties, isOld: false)
    } else if message.member == "InterfacesRemoved", let removed = message.arguments.first?.asObjectPath {
      transfers[removed.string] = nil
      handled.remove(removed.string)
    } else if let (interface, values) = message.changedProperties {
      switch interface {
      case VerifierFace.interfaceName:
        do throws(Failure) { try verifierChanged(values) } catch { finish(.failure(error)) }
      case TransferView.interface:
        transfers[path.string]?.update(values)
        if let transfer = transfers[path.string] { transferChanged(transfer) }
      default: break
      }
    }
  }

  private func verifierChanged(_ values: [String: DBusValue]) throws(Failure) {
    guard let uri = values["ConnectionUri"]?.text, uri != shownURI else { return }
    shownURI = uri
    guard !isJSON, !line.flag("quiet"), !uri.isEmpty, !line.flag("once") else { return }
    try VerifierCommand.draw(uri)
  }

  private func add(_ path: String, _ properties: [String: DBusValue], isOld: Bool) {
    guard path.hasPrefix(VerifierFace.path.string + "/"), let objectPath = ObjectPath(path) else { return }
    let transfer = TransferView(objectPath, properties)
    transfers[path] = transfer
    if isOld && transfer.isEnded { handled.insert(path) }
    transferChanged(transfer)
  }

  private func transferChanged(_ transfer: TransferView) {
    guard !handled.contains(transfer.path.string) else { return }
    switch transfer.state {
    case "connected", "transferring":
      if !isJSON { Output.progress(transfer.progress("Receiving")) }
    case "failed":
      handled.insert(transfer.path.string)
      Task { @LoopActor in await self.failed(transfer) }
    default:
      handled.insert(transfer.path.string)
      if !isJSON { Output.progress(transfer.progress("Receiving")) }
      Task { @LoopActor in await self.received(transfer) }
    }
  }

  private func failed(_ transfer: TransferView) async {
    Output.progress("")
    await transfer.complete(client)
    if line.flag("once") { return finish(.failure(Failure(.failed, transfer.error))) }
    if isJSON {
      Output.json(
        .object([.init("transfer", .string(transfer.path.string)), .init("error", .string(transfer.error))]),
        pretty: false)
    } else {
      Output.line("The transfer failed. \(transfer.error)")
    }
  }

  // MARK: What was received

  private func received(_ transfer: TransferView) async {
    await transfer.complete(client)
    do throws(Failure) {
      let values = try await client.call(transfer.path, TransferView.interface, "OpenCredential")
      guard let file = values.first?.asDescriptor, let credential = try? file.readAll(limit: 1 << 30) else {
        throw Failure(.failed, "The credential cannot be read.")
      }
      if let path = line.value("output") { try FileOutput.write(credential, to: path) }
      show(transfer, credential)
      if line.flag("accept") || line.flag("reject") {
        try await judge(transfer)
      }
      if line.flag("once") { finish(.success(.ok)) }
    } catch {
      // One credential's trouble is not the next one's.
      if line.flag("once") || error.code == .notRunning { return finish(.failure(error)) }
      Output.complain(error.text)
    }
  }

  /// Whoever judged it before us, the service itself included, has the word.
  private func judge(_ transfer: TransferView) async throws(Failure) {
    do throws(Failure) {
      try await client.call(transfer.path, TransferView.interface, line.flag("accept") ? "Accept" : "Reject")
    } catch {
      if !transfer.isEnded { throw error }
    }
  }

  private func show(_ transfer: TransferView, _ credential: [UInt8]) {
    if isJSON {
      return Output.json(
        .object([
          .init("transfer", .string(transfer.path.string)), .init("peer", .string(transfer.peer)),
          .init("bytes", .int(Int64(credential.count))),
        ]), pretty: false)
    }
    if Output.terminal.isTerminal { Output.line("") }
    Output.line("Received \(credential.count) bytes from \(transfer.peer).")
    if !line.flag("quiet"), line.value("output") == nil { Output.line(Excerpt.of(credential)) }
  }
}
