import CommandLine
import Common
import DBus
import Loop
import PBLEC
import Tool

/// `earshot nearby send`: broadcasts a message, and waits until it was broadcast.
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
    return try await Interruption.hold(
      unanswered: "The service does not answer, and may broadcast the message later."
    ) { interruption throws(Failure) in
      interruption.onSignal { events.interrupt() }
      return try await send(text, events)
    }
  }

  private func send(_ text: String, _ events: NearbyEvents) async throws(Failure) -> ExitCode {
    let values = try await client.nearby("Send", .string(text))
    guard let number = values.first?.asUInt64 else {
      throw Failure(.failed, "The service's answer contains no message number.")
    }
    if line.flag("no-wait") {
      report("Message \(number) is queued. To cancel it: earshot nearby cancel \(number)", number, "waiting")
      return .ok
    }
    var isCancelled = false
    while true {
      switch await events.next() {
      case .interrupted:
        isCancelled = true
        try await cancel(number)
      case .sent(number):
        report("Message \(number) was broadcast.", number, "sent")
        return .ok
      case .failed(number, error: "Cancelled", _) where isCancelled:
        throw Failure(.failed, "Cancelled. Phones nearby have received the message only if its broadcast had begun.")
      case .failed(number, let error, let sentence):
        throw Failure(error == "Timeout" ? .timeout : .failed, PrintableText.clean(sentence))
      case .gone: throw Failure(.notRunning, "The service ended.")
      default: break
      }
    }
  }

  /// Cancels the message after an interruption. A message that can no longer be cancelled was sent, and its signal
  /// follows.
  private func cancel(_ number: UInt64) async throws(Failure) {
    do throws(Failure) {
      try await client.nearby("Cancel", .uint64(number))
    } catch {
      guard error.code != .failed else { return }
      throw Failure(
        error.code, "\(error.text)\nThe message may be broadcast later. To cancel it: earshot nearby cancel \(number)")
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
