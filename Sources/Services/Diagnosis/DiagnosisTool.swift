import CommandLine
import Config
import Tool

/// Commands that examine this machine and the installation.
public enum DiagnosisTool {
  /// - Parameters:
  ///   - version: the version of the tool.
  ///   - messages: the names of the messages of the journal, by message ID.
  ///   - configuration: the default settings of the service.
  public static func part(version: String, messages: [String: String], configuration: Configuration) -> ToolPart {
    let report = Verb(
      "report", "Write a report for maintainers about this machine, without secrets, names and addresses.",
      options: [Option("output", short: "o", value: .file("PATH"), "A file or a folder (standard output).")],
      need: .look
    ) { client, line async throws(Failure) in
      try await ReportCommand(client, line, version: version, messages: messages, configuration: configuration).run()
    }
    return ToolPart(verbs: [doctor, report])
  }

  private static let doctor = Verb(
    "doctor", "Examine adapter, BlueZ, permissions, clock, disk and units, and print a remedy for each problem.",
    need: .look
  ) { client, line async throws(Failure) in
    try await DoctorCommand(client, line).run()
  }
}
