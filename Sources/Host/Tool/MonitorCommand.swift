import CommandLine
import Common
import DBus
import Loop

/// `earshot monitor`: every event of the service, a line each.
@LoopActor
struct MonitorCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func run() async throws(Failure) -> ExitCode {
    try await client.connect()
    let isJSON = line.flag("json")
    let signals = client.onSignal { Self.show($0, isJSON: isJSON) }
    let watch = client.bus.watchName(client.service) { owner in
      if !isJSON { Output.line(owner == nil ? "The service is not running." : "The service is running.") }
    }
    defer {
      signals.cancel()
      watch.cancel()
    }
    // Until the program is interrupted: nothing ends this.
    await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
    return .ok
  }

  private static func show(_ message: Message, isJSON: Bool) {
    guard let path = message.path, let member = message.member else { return }
    if isJSON {
      return Output.json(
        .object([
          .init("path", .string(path.string)), .init("interface", .optional(message.interface)),
          .init("signal", .string(member)), .init("arguments", .array(message.arguments.map(\.json))),
        ]), pretty: false)
    }
    if let (interface, values) = message.changedProperties {
      let changes = values.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value.text)" }.joined(separator: " ")
      Output.line("\(path.string)  \(interface.split(separator: ".").last ?? "")  \(changes)")
    } else {
      Output.line("\(path.string)  \(member)  \(message.arguments.map(\.text).joined(separator: " "))")
    }
  }
}
