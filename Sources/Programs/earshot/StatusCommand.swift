import CommandLine
import Common
import DBus
import Loop
import Terminal

/// `earshot status`: everything public about the service.
@LoopActor
struct StatusCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func run() async throws(Failure) -> ExitCode {
    try await client.connect()
    if let limit = line.seconds("wait") { try await waitForService(limit) }
    let objects = try await client.objects()
    if line.flag("json") {
      Output.json(.sorted(objects.mapValues { .sorted($0.mapValues { .sorted($0.mapValues(\.json)) }) }))
    } else {
      show(objects)
    }
    return .ok
  }

  /// Until somebody owns the name, or the time is up.
  private func waitForService(_ limit: Duration) async throws(Failure) {
    let bus = client.bus
    let service = client.service
    let isThere = await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
      let wait = Wait(continuation)
      wait.watch = bus.watchName(service) { if $0 != nil { wait.end(true) } }
      wait.timer = EventLoop.shared.schedule(after: limit) { wait.end(false) }
    }
    if !isThere {
      throw Failure(.notRunning, "\(service) did not come within the time. Try: systemctl status earshotd")
    }
  }

  private func show(_ objects: [String: Client.Properties]) {
    let bold = Output.terminal.hasColour ? ("\u{1B}[1m", "\u{1B}[0m") : ("", "")
    if let manager = objects[Client.manager.string]?["org.earshot.Manager1"] {
      Output.line("\(bold.0)earshotd \(text(manager, "Version"))\(bold.1)  \(text(manager, "Services"))")
      let reason = text(manager, "RadioReason")
      let stack = text(manager, "RadioStack")
      Output.line(
        "  radio     \(text(manager, "RadioState"))  \(text(manager, "Adapters"))" + (stack.isEmpty ? "" : "  \(stack)")
      )
      if !reason.isEmpty { Output.line("            \(reason)") }
      for limit in manager["RadioLimits"]?.asStrings ?? [] { Output.line("            - \(limit)") }
    }
    if let verifier = objects[Client.verifier.string]?["org.earshot.Verifier1"] {
      Output.line(
        "  verifier  \(text(verifier, "State"))  as \(text(verifier, "Name")), dialects \(text(verifier, "Dialects"))")
      let uri = text(verifier, "ConnectionUri")
      Output.line("            " + (uri.isEmpty ? "Start it with: earshot verifier start" : uri))
      let counters = (verifier["Counters"]?.asDictionary ?? [:]).compactMapValues(\.asInteger).filter { $0.value > 0 }
      if !counters.isEmpty {
        let text = counters.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        Output.line("            \(text)")
      }
    }
    showTransfers(objects)
  }

  private func showTransfers(_ objects: [String: Client.Properties]) {
    let transfers = objects.compactMap { path, interfaces in
      interfaces["org.earshot.Credential1"].map { (path: path, properties: $0) }
    }
    guard !transfers.isEmpty else { return }
    var table = TextTable([
      .init("TRANSFER"), .init("STATE"), .init("PEER"), .init("DIALECT"), .init("BYTES", .right), .init("ERROR"),
    ])
    for (path, properties) in transfers.sorted(by: { ($0.path.utf8.count, $0.path) < ($1.path.utf8.count, $1.path) }) {
      let name = path.dropFirst(Client.manager.string.count + 1)
      table.append([
        String(name), text(properties, "State"), text(properties, "Peer"), text(properties, "Dialect"),
        humanBytes(properties["BytesTransferred"]?.asInteger ?? 0), text(properties, "ErrorCode"),
      ])
    }
    Output.line("")
    Output.write(
      table.text(
        width: Output.terminal.isTerminal ? Output.terminal.width : nil, colour: Output.terminal.hasColour))
  }

  private func text(_ properties: [String: DBusValue], _ name: String) -> String {
    properties[name]?.text ?? ""
  }
}

/// One wait that ends once, by what was waited for or by time.
@LoopActor
private final class Wait {
  var watch: Registration?
  var timer: Registration?
  private var continuation: CheckedContinuation<Bool, Never>?

  init(_ continuation: CheckedContinuation<Bool, Never>) {
    self.continuation = continuation
  }

  func end(_ result: Bool) {
    continuation?.resume(returning: result)
    continuation = nil
    watch = nil
    timer = nil
  }
}
