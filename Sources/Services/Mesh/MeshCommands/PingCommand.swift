import CommandLine
import DBus
import Loop
import MeshViews
import Tool

/// Runs `earshot mesh ping`: pings a peer.
@LoopActor
struct PingCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func run() async throws(Failure) -> ExitCode {
    let state = try await MeshState(client)
    let peer = try state.id(of: line.argument("PEER") ?? "")
    let values = try await client.mesh("Ping", .string(peer))
    guard values.count == 2, let milliseconds = values[0].asInteger, let hops = values[1].asInteger else {
      throw Failure(.failed, "The service's reply is malformed.")
    }
    if line.flag("json") {
      Output.json(
        .object([
          .init("peer", .string(peer)), .init("milliseconds", .int(Int64(milliseconds))),
          .init("hops", .int(Int64(hops))),
        ]))
    } else {
      Output.line(
        "\(state.names.label(of: peer)) answered after \(milliseconds) ms, over \(hops) \(hops == 1 ? "hop" : "hops").")
    }
    return .ok
  }
}
