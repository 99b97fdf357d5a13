import Calendar
import CommandLine
import Common
import DBus
import Loop

/// `earshot monitor`: every event of the service as a line with its local time, its object and a sentence. With
/// `--json`, each line is the whole signal, with the time and the sentence.
@LoopActor
final class MonitorCommand {
  private let client: Client
  private let services: [ToolPart]
  private let isJSON: Bool
  private let clock = SystemWallClock()
  private var events = ServiceEvents()

  init(_ client: Client, _ line: ParsedCommand, _ services: [ToolPart]) {
    self.client = client
    self.services = services
    isJSON = line.flag("json")
  }

  func run() async throws(Failure) -> ExitCode {
    try await client.connect()
    // The registration must be retained for as long as the command waits.
    let signals = client.onSignal { self.show($0) }
    let watch = client.bus.watchName(client.service) { self.ownerChanged($0) }
    defer {
      signals.cancel()
      watch.cancel()
    }
    // The command runs until the program is interrupted.
    await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
    return .ok
  }

  private func ownerChanged(_ owner: String?) {
    if !isJSON { say(Client.manager, owner == nil ? "The service is not running." : "The service is running.") }
    guard owner != nil else { return events.reset([:]) }
    Task { @LoopActor in
      // The signals about peers and files are for the group. A program outside it gets the others.
      _ = try? await self.client.call(Client.manager, Client.managerInterface, "Watch")
      if let objects = try? await self.client.objects() { self.events.reset(objects) }
    }
  }

  private func show(_ message: Message) {
    guard let event = events.event(message) else { return }
    let sentence = Self.text(event, services)
    if isJSON { return Self.write(message, at: time, sentence) }
    say(event.path, sentence)
  }

  /// Milliseconds since 1970-01-01 UTC.
  private var time: UInt64 { UInt64(clamping: clock.milliseconds) }

  private func say(_ path: ObjectPath, _ sentence: String) {
    Output.line("\(LocalTime.clock(time))  \(Self.columns(path, sentence))")
  }

  /// Formats the object and the sentence about it in two columns. The name of the object is removed from the beginning
  /// of the sentence.
  nonisolated static func columns(_ path: ObjectPath, _ sentence: String) -> String {
    let object = ServiceEvent.name(path)
    let gap = String(repeating: " ", count: max(0, objectWidth - object.count))
    let prefix = "\(object): "
    guard sentence.hasPrefix(prefix) else { return "\(object)\(gap)  \(sentence)" }
    let rest = sentence.dropFirst(prefix.count)
    return "\(object)\(gap)  \(rest.prefix(1).uppercased())\(rest.dropFirst())"
  }

  /// Width of the column with the object's name.
  private nonisolated static let objectWidth = 23

  /// An event as a sentence: that of its service or, if the service has none, a sentence made from the names in the
  /// event.
  static func text(_ event: ServiceEvent, _ services: [ToolPart]) -> String {
    if let text = radio(event) { return text }
    for service in services {
      if let text = service.event(event) { return text }
    }
    return event.plainText
  }

  /// A sentence about an event of the whole service, such as a changed radio state; nil for any other event.
  private static func radio(_ event: ServiceEvent) -> String? {
    guard case .changed(_, Client.managerInterface, let values, _, let known) = event else { return nil }
    guard values["RadioState"] != nil || values["RadioReason"] != nil, let state = known["RadioState"]?.text else {
      return nil
    }
    let reason = known["RadioReason"]?.text ?? ""
    let adapters = known["Adapters"]?.text ?? ""
    return "The radio is \(state)" + (adapters.isEmpty ? "." : " (\(adapters)).") + (reason.isEmpty ? "" : " \(reason)")
  }

  private static func write(_ message: Message, at time: UInt64, _ sentence: String) {
    guard let path = message.path, let member = message.member else { return }
    Output.json(
      .object([
        .init("path", .string(path.string)), .init("interface", .optional(message.interface)),
        .init("signal", .string(member)), .init("arguments", .array(message.arguments.map(\.json))),
        .init("time", .unsigned(time)), .init("sentence", .string(sentence)),
      ]), pretty: false)
  }
}
