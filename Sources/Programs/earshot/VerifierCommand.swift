import CommandLine
import DBus
import Loop
import Terminal

/// `earshot verifier start`, `stop` and `show`.
@LoopActor
struct VerifierCommand {
  static let interface = "org.earshot.Verifier1"

  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func start() async throws(Failure) -> ExitCode {
    try await client.connect()
    let uri = try await client.call(Client.verifier, Self.interface, "Start").first?.asString ?? ""
    try show(uri)
    return .ok
  }

  func stop() async throws(Failure) -> ExitCode {
    try await client.connect()
    try await client.call(Client.verifier, Self.interface, "Stop")
    if line.flag("json") { Output.json(.object([.init("state", "stopped")])) }
    return .ok
  }

  func show() async throws(Failure) -> ExitCode {
    try await client.connect()
    let uri = try await client.property(Client.verifier, Self.interface, "ConnectionUri").text
    guard !uri.isEmpty else { throw Failure(.failed, "The verifier is stopped. Try: earshot verifier start") }
    try show(uri)
    return .ok
  }

  private func show(_ uri: String) throws(Failure) {
    if line.flag("json") { return Output.json(.object([.init("uri", .string(uri))])) }
    if line.flag("uri") { return Output.line(uri) }
    try Self.draw(uri)
  }

  /// The QR code where there is a terminal wide enough for it, and its text below.
  static func draw(_ uri: String) throws(Failure) {
    do throws(QRCodeError) {
      if let drawing = try QRCode(uri).drawing(on: Output.terminal) { Output.write(drawing) }
    } catch {
      throw Failure(.failed, error.sentence)
    }
    Output.line(uri)
  }
}
