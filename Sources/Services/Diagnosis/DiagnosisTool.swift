import CommandLine
import Tool

/// Commands that examine this machine and the installation.
public enum DiagnosisTool {
  public static let part = ToolPart(verbs: [doctor])

  private static let doctor = Verb(
    "doctor", "Examine adapter, BlueZ, rights, clock, disk and units, and say what to do about each problem.",
    need: .look
  ) { client, line async throws(Failure) in
    try await DoctorCommand(client, line).run()
  }
}
