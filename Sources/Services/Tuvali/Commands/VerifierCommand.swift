import CommandLine
import DBus
import Loop
import Terminal
import Tool
import Verifier

/// Runs `earshot verifier start`, `stop` and `show`.
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
    try await client.call(VerifierAdaptor.path, VerifierAdaptor.interfaceName, "Start")
    let verifier = try await view()
    if !verifier.uri.isEmpty || line.flag("json") {
      try show(verifier)
    } else {
      Output.complain(verifier.troubles.joined(separator: "\n"))
    }
    return .ok
  }

  func stop() async throws(Failure) -> ExitCode {
    try await client.connect()
    try await client.call(VerifierAdaptor.path, VerifierAdaptor.interfaceName, "Stop")
    if line.flag("json") { Output.json(.object([.init("state", "stopped")])) }
    return .ok
  }

  func show() async throws(Failure) -> ExitCode {
    try await client.connect()
    let verifier = try await view()
    guard !verifier.uri.isEmpty else { throw Failure(.failed, verifier.troubles.joined(separator: "\n")) }
    try show(verifier)
    return .ok
  }

  private func view() async throws(Failure) -> VerifierView {
    guard let view = VerifierView(try await client.objects()) else {
      throw Failure(.failed, "The service has no verifier.")
    }
    return view
  }

  private func show(_ verifier: VerifierView) throws(Failure) {
    let troubles = verifier.troubles
    if line.flag("json") {
      return Output.json(
        .object([.init("uri", .string(verifier.uri)), .init("troubles", .array(troubles.map { .string($0) }))]))
    }
    if line.flag("uri") { return Output.line(verifier.uri) }
    let terminal = Output.terminal
    let code = try Self.code(verifier.uri)
    guard terminal.isTerminal else {
      if let drawing = code.drawing(on: terminal) { Output.write(drawing) }
      Output.line(verifier.uri)
      return troubles.forEach(Output.complain)
    }
    Output.write(Self.screen(verifier, code).lines(on: terminal).joined(separator: "\n") + "\n")
  }

  /// Screen of `show` on a terminal.
  static func screen(_ verifier: VerifierView, _ code: QRCode) -> Screen {
    var screen = Screen()
    screen.code = code
    screen.invitation = invitation(verifier)
    screen.heading = verifier.troubles + ["The code as text: earshot verifier show --uri"]
    return screen
  }

  /// Returns the sentence above the QR code with the instruction for people.
  nonisolated static func invitation(_ verifier: VerifierView) -> String {
    "Scan this code with a wallet. The wallet sends its credential to \(verifier.name)."
  }

  nonisolated static func code(_ uri: String) throws(Failure) -> QRCode {
    do throws(QRCodeError) {
      return try QRCode(uri)
    } catch {
      throw Failure(.failed, error.sentence)
    }
  }
}
