import CommandLine
import Common
import DBus
import Loop
import Terminal
import Tool
import Verifier
import Wallet

/// Runs `earshot transfers`: manual handling of received credentials.
@LoopActor
struct TransfersCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func list() async throws(Failure) -> ExitCode {
    try await client.connect()
    let transfers = Self.all(try await client.objects())
    if line.flag("json") {
      Output.json(.array(transfers.map(Self.json)))
    } else {
      Output.write(transfers.isEmpty ? "There are no transfers.\n" : TransferTable.text(transfers))
    }
    return .ok
  }

  func show() async throws(Failure) -> ExitCode {
    let transfer = try await find()
    let claims = transfer.hasVerdict ? await client.claims(of: transfer.path) : nil
    if line.flag("json") {
      Output.json(Self.json(transfer, claims: claims))
      return .ok
    }
    let now = UInt64(clamping: SystemWallClock().milliseconds)
    let width = transfer.properties.keys.map(\.count).max() ?? 0
    for (name, value) in transfer.properties.sorted(by: { $0.key < $1.key }) {
      let gap = String(repeating: " ", count: width - name.count + 2)
      let text =
        name == "VerdictReasons"
        ? transfer.reasons.map(\.code).joined(separator: " ") : Self.text(name, value, now: now)
      Output.line(name + gap + PrintableText.clean(text, limit: 1000))
    }
    guard transfer.hasVerdict else { return .ok }
    Output.line("\nThe credential is \(transfer.verdictText).")
    for reason in transfer.reasons {
      Output.line(PrintableText.clean("  \(reason.code): \(reason.sentence)", limit: 600))
    }
    for claim in CheckText.claimLines(claims) { Output.line("  \(claim)") }
    return .ok
  }

  private static let times: Set<String> = ["StartedAt", "ReceivedAt", "ExpiresAt", "VerdictDeadline"]
  private static let sizes: Set<String> = ["Size", "BytesExpected", "BytesTransferred"]

  /// Formats the value of a D-Bus property for people: times, sizes and words.
  private static func text(_ name: String, _ value: DBusValue, now: UInt64) -> String {
    guard let number = value.asInteger else { return value.text }
    if times.contains(name) { return Moment.full(UInt64(clamping: number), now: now) }
    if sizes.contains(name), number >= 1024 { return "\(humanBytes(number)) (\(number) bytes)" }
    return sizes.contains(name) ? humanBytes(number) : value.text
  }

  func get() async throws(Failure) -> ExitCode {
    // The output path is checked before the service hands over a credential that it then erases.
    var place: FilePlace?
    if let path = line.value("output"), path != "-" { place = try FilePlace(path) }
    let path = try await find().path
    // The service erases an accepted credential once it is fetched, so signals must not end the command before the file
    // is written.
    return try await Interruption.hold(
      unanswered: "\(Self.lastPart(path)) may not have been written completely.", patience: .seconds(60)
    ) { [place] _ throws(Failure) in
      let credential = try await Self.fetch(path, client)
      if let place {
        let file = try place.keep(credential, as: Self.lastPart(path))
        Output.line("Wrote \(humanBytes(credential.count)) to \(file).")
      } else if Output.terminal.isTerminal {
        Output.line(PrintableText.clean(String(decoding: credential, as: UTF8.self), limit: credential.count))
      } else {
        Output.write(credential)
      }
      return .ok
    }
  }

  func accept() async throws(Failure) -> ExitCode {
    try await judge("Accept", "Accepted")
  }

  func reject() async throws(Failure) -> ExitCode {
    try await judge("Reject", "Rejected")
  }

  private func judge(_ verdict: String, _ done: String) async throws(Failure) -> ExitCode {
    let path = try await find().path
    try await client.call(path, TransferView.interface, verdict)
    try await report(path, done)
    return .ok
  }

  /// Reports an action on a credential, and whether the phone was notified of a verdict.
  private func report(_ path: ObjectPath, _ done: String, isVerdict: Bool = true) async throws(Failure) {
    // The transfer may no longer be listed.
    let transfer = TransferView(path, await client.transferProperties(path))
    if line.flag("json") {
      return Output.json(
        .object([
          .init("transfer", .string(path.string)), .init("state", .string(transfer.state)),
          .init("verdictDelivery", .string(transfer.verdictDelivery)),
        ]))
    }
    Output.line("\(done) \(transfer.name)." + (isVerdict ? transfer.deliveryNote : ""))
  }

  func cancel() async throws(Failure) -> ExitCode {
    let path = try await find().path
    try await client.call(path, TransferView.interface, "Disconnect")
    Output.line("Cancelled \(TransferTable.name(path)).")
    return .ok
  }

  /// Erases a credential: one without a verdict by rejecting it, an accepted one by fetching it.
  func erase() async throws(Failure) -> ExitCode {
    let transfer = try await find()
    let (path, state) = (transfer.path, transfer.state)
    switch state {
    case "received": try await client.call(path, TransferView.interface, "Reject")
    case "accepted": _ = try await Self.fetch(path, client)
    default: throw Failure(.failed, "\(Self.lastPart(path)) has no credential.")
    }
    try await report(path, "Erased", isVerdict: state == "received")
    return .ok
  }

  /// Fetches the credential of a transfer. The service then erases an accepted one.
  static func fetch(_ path: ObjectPath, _ client: Client) async throws(Failure) -> [UInt8] {
    let values = try await client.call(path, TransferView.interface, "OpenCredential")
    guard let file = values.first?.asDescriptor, let credential = try? file.readAll(limit: 1 << 30) else {
      throw Failure(.failed, "The credential cannot be read.")
    }
    return credential
  }

  // MARK: Names

  private static func all(_ objects: ToolPart.Objects) -> [TransferView] {
    [VerifierAdaptor.path, WalletAdaptor.path].flatMap { TransferTable.transfers(objects, below: $0) }
  }

  /// Finds the named transfer: `credential7` or `7` for the verifier's, `wallet/credential7`, or the whole path.
  private func find() async throws(Failure) -> TransferView {
    let name = PastedText.trimmed(line.argument("NAME") ?? "")
    try await client.connect()
    let transfers = Self.all(try await client.objects())
    let names = [name, "credential\(name)"]
    let found = transfers.first {
      $0.path.string == name || names.contains(TransferTable.name($0.path))
        || $0.path.string.hasSuffix("/earshot/\(name)")
    }
    guard let found else { throw Failure(.failed, "There is no transfer \(name). Try: earshot transfers list") }
    return found
  }

  private static func lastPart(_ path: ObjectPath) -> String {
    path.string.split(separator: "/").last.map(String.init) ?? ""
  }

  private static func json(_ transfer: TransferView) -> JSONValue { json(transfer, claims: nil) }

  private static func json(_ transfer: TransferView, claims: String?) -> JSONValue {
    let claims = claims.flatMap { try? JSONReader.read(Array($0.utf8)) }
    return .object(
      [.init("transfer", .string(transfer.path.string))]
        + transfer.properties.sorted { $0.key < $1.key }.map { .init($0.key, $0.value.json) }
        + (claims.map { [.init("claims", $0)] } ?? []))
  }
}
