import CommandLine
import DBus
import Loop
import Terminal
import Tool
import Verifier

/// `earshot verifier start`, `stop` and `show`.
@LoopActor
struct VerifierCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func start() async throws(Failure) -> ExitCode {
    try await client.connect()
    let uri = try await client.call(VerifierFace.path, VerifierFace.interfaceName, "Start").first?.asString ?? ""
    try show(uri)
    return .ok
  }

  func stop() async throws(Failure) -> ExitCode {
    try await client.connect()
    try await client.call(VerifierFace.path, VerifierFace.interfaceName, "Stop")
    if line.flag("json") { Output.json(.object([.init("state", "stopped")])) }
    return .ok
  }

  func show() async throws(Failure) -> ExitCode {
    try await client.connect()
    let uri = try await client.property(VerifierFace.path, VerifierFace.interfaceName, "ConnectionUri").text
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
