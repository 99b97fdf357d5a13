import CommandLine
import Common
import DBus
import Loop
import Terminal

/// `earshot status`: the public state of the service, followed by the lines of each part.
@LoopActor
struct StatusCommand {
  private let client: Client
  private let line: ParsedCommand
  private let services: [ToolPart]

  init(_ client: Client, _ line: ParsedCommand, _ services: [ToolPart]) {
    self.client = client
    self.line = line
    self.services = services
  }

  func run() async throws(Failure) -> ExitCode {
    try await client.connect()
    if let limit = line.seconds("wait") { try await waitForService(limit) }
    let objects = try await client.objects()
    if line.flag("json") {
      Output.json(.sorted(objects.mapValues { .sorted($0.mapValues { .sorted($0.mapValues(\.json)) }) }))
    } else {
      let terminal = Output.terminal
      let text = line.flag("counters") ? Self.counters(objects, services, terminal.width) : Self.text(objects, services)
      Output.write(terminal.isTerminal ? Self.fitted(text, to: terminal.width) : text)
    }
    do throws(Failure) { try await client.checkGroup() } catch {
      if error.code == .denied { Output.complain("Values for members of the group are not shown. \(error.text)") }
    }
    return .ok
  }

  /// Waits until a program owns the name, or the time limit is reached.
  private func waitForService(_ limit: Duration) async throws(Failure) {
    let bus = client.bus
    let service = client.service
    let isThere = await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
      let wait = Wait(continuation)
      wait.watch = bus.watchName(service) { if $0 != nil { wait.end(true) } }
      wait.timer = EventLoop.shared.schedule(after: limit) { wait.end(false) }
    }
    if !isThere {
      throw Failure(.notRunning, "\(service) did not start within the time limit. Try: systemctl status earshotd")
    }
  }

  /// The status text for the objects on the bus.
  static func text(_ objects: ToolPart.Objects, _ services: [ToolPart]) -> String {
    house(objects) + services.map { $0.status(objects) }.joined()
  }

  /// The output of `earshot status --counters`.
  static func counters(_ objects: ToolPart.Objects, _ services: [ToolPart], _ width: Int) -> String {
    let tables = ([CounterMeanings.house] + services.compactMap(\.counters)).map { $0.text(objects, width: width) }
      .filter { !$0.isEmpty }
    return tables.isEmpty ? "All counters are 0.\n" : tables.joined(separator: "\n")
  }

  /// Breaks lines that are wider than `width` between words; continuation lines begin below the value of the line.
  ///
  /// A line without a blank in its value, such as the text of a QR code, stays whole.
  nonisolated static func fitted(_ text: String, to width: Int) -> String {
    text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      guard DisplayText.width(String(line)) > width, line.count > indent, line.dropFirst(indent).contains(" ") else {
        return String(line)
      }
      let lines = DisplayText.wrap(String(line.dropFirst(indent)), to: max(20, width - indent))
      return line.prefix(indent) + lines.joined(separator: "\n" + String(repeating: " ", count: indent))
    }.joined(separator: "\n")
  }

  /// Columns before the value of a line.
  private nonisolated static let indent = 12

  /// The use of the advertising slots: `3 of 3 advertising slots used: one, another (2); waiting for one: a third`.
  private static func slots(_ manager: [String: DBusValue]) -> String? {
    guard case .structure(let numbers)? = manager["AdvertisingSlots"]?.unwrapped, numbers.count == 2,
      let used = numbers[0].asInteger, let slots = numbers[1].asInteger
    else { return nil }
    let (onAir, waiting) = (manager["AdvertisingServices"]?.asStrings ?? [], manager["Waiting"]?.asStrings ?? [])
    let others = max(0, Int(used) - onAir.count)
    let counts = (onAir + Array(repeating: "other programs", count: min(others, 99))).reduce(into: [:]) {
      $0[$1, default: 0] += 1
    }
    let services = counts.sorted { $0.key < $1.key }.map { $0.value > 1 ? "\($0.key) (\($0.value))" : $0.key }
    return "\(used) of \(slots) advertising slots used"
      + (services.isEmpty ? "" : ": " + services.joined(separator: ", "))
      + (waiting.isEmpty ? "" : "; waiting for one: " + waiting.joined(separator: ", "))
  }

  private static func house(_ objects: ToolPart.Objects) -> String {
    guard let manager = objects[Client.manager.string]?["org.earshot.Manager1"] else { return "" }
    func text(_ name: String) -> String { manager[name]?.text ?? "" }
    let bold = Output.terminal.hasColour ? ("\u{1B}[1m", "\u{1B}[0m") : ("", "")
    let (reason, stack) = (text("RadioReason"), text("RadioStack"))
    var lines = [
      "\(bold.0)earshotd \(text("Version"))\(bold.1)  \(text("Services"))",
      "  radio     \(text("RadioState"))  \(text("Adapters"))" + (stack.isEmpty ? "" : "  \(stack)"),
    ]
    if !reason.isEmpty { lines.append("            \(reason)") }
    lines += (manager["RadioLimits"]?.asStrings ?? []).map { "            - \($0)" }
    lines += slots(manager).map { ["            \($0)"] } ?? []
    return lines.map { $0 + "\n" }.joined()
  }
}

/// A wait that ends exactly once: when the event occurs, or at the time limit.
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
