import CommandLine
import Common
import DBus
import Loop
import PBLEC
import Tool

/// `earshot nearby send`: says something, and stays until it was said.
@LoopActor
struct SendNearbyCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func run() async throws(Failure) -> ExitCode {
    let text = try text()
    try await client.connect()
    let events = NearbyEvents(client)
    defer { events.cancel() }
    let values = try await client.nearby("Send", .string(text))
    guard let number = values.first?.asUInt64 else { throw Failure(.failed, "The service's answer names no message.") }
    if line.flag("no-wait") {
      report("Message \(number) waits for its turn.", number, "waiting")
      return .ok
    }
    while true {
      switch await events.next() {
      case .sent(number):
        report("Said to everybody nearby.", number, "sent")
        return .ok
      case .failed(number, let error, let sentence):
        throw Failure(error == "Timeout" ? .timeout : .failed, PrintableText.clean(sentence))
      case .gone: throw Failure(.notRunning, "The service ended.")
      default: break
      }
    }
  }

  private func text() throws(Failure) -> String {
    let text = try StandardInput.text(or: line.arguments("TEXT"))
    return line.flag("cut") ? MessageText.clipped(text) : text
  }

  private func report(_ sentence: String, _ number: UInt64, _ state: String) {
    if line.flag("json") {
      Output.json(.object([.init("message", .unsigned(number)), .init("state", .string(state))]))
    } else {
      Output.line(sentence)
    }
  }
}
