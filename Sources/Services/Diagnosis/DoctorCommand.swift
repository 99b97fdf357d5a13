import CommandLine
import Loop
import Tool

/// `earshot doctor`: examines everything that the service needs, and names the remedy of each problem.
@LoopActor
struct DoctorCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  /// - Returns: `failed` if there is an error; warnings alone are a success.
  func run() async throws(Failure) -> ExitCode {
    let findings = Examination.findings(await MachineProbe(client).facts())
    if line.flag("json") {
      Output.json(findings.json)
    } else {
      let terminal = Output.terminal
      Output.write(findings.text(width: terminal.isTerminal ? terminal.width : nil, colour: terminal.hasColour))
    }
    return findings.count(of: .error) > 0 ? .failed : .ok
  }
}
