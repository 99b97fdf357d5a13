import CommandLine
import Common
import DBus
import Glibc
import Loop
import Terminal
import Tool
import Verifier

/// `earshot verifier watch`: stands beside the kiosk, and takes what it receives.
///
/// A credential is fetched, stored, told of, and only then judged; one after the other.
@LoopActor
final class WatchCommand {
  private let client: Client
  private let line: ParsedCommand
  private let display: WatchDisplay
  private let isOnce: Bool
  private var place: FilePlace?
  private var verifier: VerifierView?
  private var transfers: [String: TransferView] = [:]
  /// The transfers that there is nothing more to do about.
  private var handled: Set<String> = []
  private var received: [TransferView] = []
  private var isTaking = false
  private var timeIsUp = false
  private var end: CheckedContinuation<Result<ExitCode, Failure>, Never>?
  private var early: Result<ExitCode, Failure>?
  private var registrations: [Registration] = []

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
    isOnce = line.flag("once")
    display = WatchDisplay(
      isJSON: line.flag("json"), isQuiet: line.flag("quiet"), note: line.value("note") ?? "")
  }

  func run() async throws(Failure) -> ExitCode {
    try check()
    try await client.connect()
    registrations = [
      client.onSignal { [weak self] in self?.signal($0) },
      client.bus.watchName(client.service) { [weak self] owner in
        if owner == nil, self?.verifier != nil {
          self?.finish(.failure(Failure(.notRunning, "The service has ended.")))
        }
      },
      EventLoop.shared.on(signal: SIGWINCH) { [weak self] in self?.display.draw() },
    ]
    let objects = try await client.objects()
    guard let verifier = VerifierView(objects) else { throw Failure(.failed, "The service has no verifier.") }
    self.verifier = verifier
    try display.show(verifier)
    if !verifier.isStopped { display.say("Waiting for wallets.") }
    begin(objects)
    if let limit = line.seconds("for") {
      registrations.append(EventLoop.shared.schedule(after: limit) { [weak self] in self?.stop() })
    }
    let result = await withCheckedContinuation { continuation in
      if let early { continuation.resume(returning: early) } else { end = continuation }
    }
    registrations = []
    return try result.get()
  }

  /// What makes no sense is refused before anything is taken.
  private func check() throws(Failure) {
    if line.flag("accept"), line.flag("reject") {
      throw Failure(.usage, "--accept and --reject exclude each other.")
    }
    guard let path = line.value("output") else { return }
    let place = try FilePlace(path)
    guard isOnce || place.isForMany else {
      throw Failure(
        .usage,
        "--output \(path) is one file, which the next credential would replace. Name a folder, or a file with {} in its name "
          + "for the transfer's, or add --once.")
    }
    self.place = place
  }

  /// Those that were there before: an older visitor's credential is taken only if asked for.
  private func begin(_ objects: ToolPart.Objects) {
    var waiting = 0
    for (path, interfaces) in objects.sorted(by: { ($0.key.utf8.count, $0.key) < ($1.key.utf8.count, $1.key) }) {
      guard transfers[path] == nil, let properties = interfaces[TransferView.interface] else { continue }
      let state = properties["State"]?.text ?? ""
      if state == "received" { waiting += 1 }
      let isWanted = line.flag("waiting") && (state == "received" || state == "accepted")
      add(path, properties, isHandled: !isWanted && state != "connected" && state != "transferring")
    }
    if waiting > 0, !line.flag("waiting") {
      display.say("From before, \(waiting) wait for a verdict: earshot transfers, or watch --waiting.")
    }
  }

  private func stop() {
    timeIsUp = true
    guard !isTaking else { return }
    finish(isOnce ? .failure(Failure(.timeout, "No credential came within the time.")) : .success(.ok))
  }

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
      add(added.string, properties)
    } else if message.member == "InterfacesRemoved", let removed = message.arguments.first?.asObjectPath {
      transfers[removed.string] = nil
      handled.remove(removed.string)
      showProgress()
    } else if let (interface, values) = message.changedProperties {
      if interface == TransferView.interface {
        guard let transfer = transfers[path.string] else { return }
        transfer.update(values)
        transferChanged(transfer)
      } else if verifier?.update(interface, values) == true, let verifier {
        do throws(Failure) { try display.show(verifier) } catch { finish(.failure(error)) }
      }
    }
  }

  /// - Parameter isHandled: whether it was there before this program, and is none of its business.
  private func add(_ path: String, _ properties: [String: DBusValue], isHandled: Bool? = nil) {
    guard path.hasPrefix(VerifierFace.path.string + "/"), let objectPath = ObjectPath(path) else { return }
    let transfer = TransferView(objectPath, properties, isOld: isHandled != nil)
    transfers[path] = transfer
    if isHandled == true { handled.insert(path) }
    transferChanged(transfer)
  }

  private func transferChanged(_ transfer: TransferView) {
    guard !handled.contains(transfer.path.string) else { return }
    if !transfer.isUnderWay { handled.insert(transfer.path.string) }
    showProgress()
    switch transfer.state {
    case "failed": Task { @LoopActor in await self.failed(transfer) }
    case "received", "accepted":
      received.append(transfer)
      takeNext()
    default: break
    }
    if transfer.state == "rejected" || transfer.state == "undecided" {
      lost(transfer, "\(transfer.name) ended as \(transfer.state) before it was fetched.")
    }
  }

  private func showProgress() {
    let underWay = transfers.values.filter { $0.isUnderWay && !handled.contains($0.path.string) }
    display.show(underWay.sorted { ($0.name.utf8.count, $0.name) < ($1.name.utf8.count, $1.name) })
  }

  private func failed(_ transfer: TransferView) async {
    await transfer.complete(client)
    display.say([.init("transfer", .string(transfer.path.string)), .init("error", .string(transfer.error))])
    if isOnce { return finish(.failure(Failure(.failed, transfer.error))) }
    display.say("The transfer failed. \(transfer.error)")
  }

  private func lost(_ transfer: TransferView, _ sentence: String) {
    if isOnce { return finish(.failure(Failure(.failed, sentence))) }
    display.complain(sentence)
  }

  // MARK: What was received

  private func takeNext() {
    guard !isTaking, !timeIsUp, !received.isEmpty else { return }
    isTaking = true
    let transfer = received.removeFirst()
    Task { @LoopActor in
      let isTaken = await self.take(transfer)
      self.isTaking = false
      if isTaken, self.isOnce { return }
      if self.timeIsUp { return self.stop() }
      self.takeNext()
    }
  }

  /// - Returns: whether there was a credential, or should have been.
  private func take(_ transfer: TransferView) async -> Bool {
    await transfer.complete(client)
    do throws(Failure) {
      let credential: [UInt8]
      do throws(Failure) {
        credential = try await TransfersCommand.fetch(transfer.path, client)
      } catch {
        // It was accepted and fetched long ago.
        if transfer.isOld, transfer.state == "accepted", error.code == .failed { return false }
        throw error
      }
      let file = try store(transfer, credential)
      tell(transfer, credential, file)
      if line.flag("accept") || line.flag("reject") { try await judge(transfer) }
      if isOnce { finish(.success(.ok)) }
    } catch {
      // One credential's trouble is not the next one's.
      if isOnce || error.code == .notRunning { finish(.failure(error)) } else { display.complain(error.text) }
    }
    return true
  }

  private func store(_ transfer: TransferView, _ credential: [UInt8]) throws(Failure) -> String? {
    guard let place else { return nil }
    do throws(Failure) {
      return try place.keep(credential, as: transfer.name)
    } catch {
      let rest = transfer.state == "received" ? "\nIt waits in the service: earshot transfers get \(transfer.name)" : ""
      throw Failure(error.code, error.text + rest)
    }
  }

  private func tell(_ transfer: TransferView, _ credential: [UInt8], _ file: String?) {
    let isShown = line.flag("show")
    var members: [JSONValue.Member] = [
      .init("transfer", .string(transfer.path.string)), .init("peer", .string(transfer.peer)),
      .init("bytes", .int(Int64(credential.count))),
    ]
    if let file { members.append(.init("file", .string(file))) }
    if isShown { members.append(.init("credential", .string(String(decoding: credential, as: UTF8.self)))) }
    display.say(members)
    display.say(
      "Received \(credential.count) bytes from \(transfer.peer)" + (file.map { "; they are in \($0)." } ?? "."),
      more: isShown ? credential : nil)
  }

  /// Whoever judged it before us, the service itself included, has the word.
  private func judge(_ transfer: TransferView) async throws(Failure) {
    let verdict = line.flag("accept") ? "Accept" : "Reject"
    guard !transfer.isEnded else { return }
    do throws(Failure) {
      try await client.call(transfer.path, TransferView.interface, verdict)
      await transfer.complete(client)
      display.say("\(verdict)ed \(transfer.name).\(transfer.deliveryNote)")
    } catch {
      await transfer.complete(client)
      if !transfer.isEnded { throw error }
    }
  }
}
