import CommandLine
import DBus
import Loop
import Tool

/// `earshot nearby watch`: shows messages as they arrive.
@LoopActor
final class WatchNearbyCommand {
  private let client: Client
  private let line: ParsedCommand
  private let program: EventProgram?
  /// Number of the last fetched message.
  private var last: UInt64 = 0

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
    program = EventProgram(line)
  }

  private var isJSON: Bool { line.flag("json") }

  static let usualLimit = 20

  func run() async throws(Failure) -> ExitCode {
    try program?.check()
    do throws(Failure) {
      return try await watch()
    } catch {
      // The --exec program handles the remaining messages before the command ends.
      await program?.finish()
      throw error
    }
  }

  private func watch() async throws(Failure) -> ExitCode {
    try await client.connect()
    let events = NearbyEvents(client)
    defer { events.cancel() }
    show(try await fetch().suffix(line.integer("limit") ?? Self.usualLimit))
    while true {
      switch await events.next() {
      case .heard:
        let messages = try await fetch()
        show(messages[...])
        for message in messages { program?.post(message.json) }
      case .notified:
        let event = JSONValue.object([.init("notified", true)])
        program?.post(event)
        if isJSON {
          Output.json(event, pretty: false)
        } else {
          Output.line("Somebody nearby wants to talk.")
        }
      case .gone: throw Failure(.notRunning, "The service ended.")
      case .sent, .failed, .interrupted: break
      }
    }
  }

  /// Fetches the messages after the last one.
  private func fetch() async throws(Failure) -> [NearbyMessage] {
    let messages = try await client.nearbyMessages(after: last).filter { $0.number > last }
    last = messages.map(\.number).max() ?? last
    return messages
  }

  private func show(_ messages: ArraySlice<NearbyMessage>) {
    let terminal = Output.terminal
    for message in messages {
      if isJSON {
        Output.json(message.json, pretty: false)
      } else {
        Output.line(message.line(width: terminal.isTerminal ? terminal.width : nil))
      }
    }
  }
}
