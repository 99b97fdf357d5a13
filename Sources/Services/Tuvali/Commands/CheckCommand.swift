import Checking
import CommandLine
import LocalSockets
import Loop
import Terminal
import Tool

/// Runs `earshot check`: has the checker check a credential in a file. The credential is parsed in the checker's
/// sandbox, not by this user. The service need not run.
@LoopActor
enum CheckCommand {
  nonisolated static let verb = Verb(
    "check", "Check a credential in a file: issuer, signature, dates, revocation.",
    options: [
      Option("socket", value: .file("PATH"), "The checker's socket (\(SocketChecker.defaultPath)).")
    ], arguments: [Argument(.file("FILE"), "A credential, or a wallet's record with one in it; - is standard input.")],
    need: .nothing
  ) { _, line async throws(Failure) in
    try await run(line)
  }

  private static func run(_ line: ParsedCommand) async throws(Failure) -> ExitCode {
    let path = line.argument("FILE") ?? "-"
    let file = try InputFile(path, name: "credential")
    let credential = try FileOutput.readToEnd(file.descriptor, path)
    let socket = line.value("socket") ?? SocketChecker.defaultPath
    let checker = SocketChecker(
      path: socket, connector: SocketConnector(), scheduler: EventLoop.shared,
      timeout: line.seconds("timeout") ?? SocketChecker.defaultTimeout)
    var check: Registration?
    let verdict = await withCheckedContinuation { continuation in
      check = checker.check(credential) { continuation.resume(returning: $0) }
    }
    check?.cancel()
    if case .missing(let sentence)? = verdict.failure {
      throw Failure(
        .notRunning,
        checker.absence == nil
          ? sentence : "No checker listens at \(socket). Try: systemctl start earshot-check.socket")
    }
    if line.flag("json") {
      Output.json((try? JSONReader.read(verdict.document)) ?? CheckText.json(verdict))
    } else {
      for line in CheckText.lines(verdict) { Output.line(line) }
    }
    switch verdict.word {
    case .valid: return .ok
    case .undecided: return .undecided
    case .invalid, .untrusted, .revoked, .expired, .notYetValid: return .failed
    }
  }
}
