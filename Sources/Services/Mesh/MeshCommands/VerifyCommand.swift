import BitchatWire
import Bytes
import CommandLine
import Common
import DBus
import Loop
import MeshViews
import Terminal
import Tool

/// Runs `earshot mesh verify`: shows this node's verification code, or reads another one and waits for the proof.
@LoopActor
struct VerifyCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func run() async throws(Failure) -> ExitCode {
    let text = line.argument("CODE")
    if text != nil, line.flag("read") {
      throw Failure(.usage, "--read reads the code from standard input, so CODE cannot be given.")
    }
    if line.flag("read") || text == "-" { return try await read(try StandardInput.text()) }
    if let text { return try await read(text) }
    return try await show()
  }

  // MARK: Own code

  private func show() async throws(Failure) -> ExitCode {
    try await client.connect()
    let text = try await client.mesh("VerificationCode").first?.asString ?? ""
    if line.flag("json") {
      Output.json(.object([.init("code", .string(text))]))
    } else if line.flag("text") {
      Output.line(text)
    } else {
      Output.write(try Self.drawing(text, Output.terminal))
    }
    return .ok
  }

  /// Code, text and instructions. If the code has more rows than the terminal, it can be scrolled to, and the last line
  /// states the required size.
  nonisolated static func drawing(_ text: String, _ terminal: TerminalInfo) throws(Failure) -> String {
    let code: QRCode
    do throws(QRCodeError) {
      code = try QRCode(text)
    } catch {
      throw Failure(.failed, error.sentence)
    }
    var lines: [String] = []
    let drawing = code.drawing(on: terminal)
    let rows = drawing?.count { $0 == "\n" } ?? 0
    lines.append(text)
    let reading = drawing == nil ? "Read the text with" : "Scan the code, or read its text with"
    lines.append("\(reading): earshot mesh verify CODE. It is valid for 5 minutes.")
    // A line of text may wrap.
    let below = lines.map { (DisplayText.width($0) + terminal.width - 1) / max(1, terminal.width) }.reduce(1, +)
    if drawing == nil {
      lines.append("The QR code does not fit: it needs \(code.size + 4) columns, this terminal has \(terminal.width).")
    } else if terminal.isTerminal, rows + below > terminal.height {
      lines.append("The whole code needs a terminal of \(rows + below + 1) rows; this one has \(terminal.height).")
    }
    return (drawing ?? "") + lines.map { $0 + "\n" }.joined()
  }

  // MARK: Code of another peer

  private func read(_ words: String) async throws(Failure) -> ExitCode {
    let text = PastedText.unbroken(words)
    do throws(WireError) {
      guard try VerificationCode(reading: text).isSigned else { throw WireError.badValue("sig") }
    } catch {
      throw Failure(.failed, "The text is not a verification code: \(error.description).")
    }
    try await client.connect()
    guard let peer = try await client.mesh("VerifyCode", .string(text)).first?.asString else {
      throw Failure(.failed, "The service's reply names no peer.")
    }
    let limit = line.seconds("wait") ?? .seconds(30)
    let proof = try await client.proof(of: peer, within: limit)
    let names = try await MeshState(client).names
    if line.flag("json") {
      Output.json(
        .object([
          .init("peer", .string(peer)), .init("name", .string(names.name(of: peer))),
          .init("verified", .bool(proof == .proven)),
          .init("proof", .string(proof.rawValue)),
        ]))
      return proof.exitCode
    }
    let sentence = proof.sentence(name: "\(names.label(of: peer)) (\(peer))")
    guard proof == .proven else { throw Failure(proof.exitCode, sentence) }
    Output.line(sentence)
    return .ok
  }
}

extension MeshProof {
  /// 0 if proven; the status of a timeout if there is no result.
  var exitCode: ExitCode {
    switch self {
    case .proven: .ok
    case .asked, .noAnswer: .timeout
    case .wrong, .gone, .blocked: .failed
    }
  }
}
