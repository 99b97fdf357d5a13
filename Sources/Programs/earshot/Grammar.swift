import CommandLine

/// Everything that can be typed behind `earshot`.
enum Grammar {
  static let command = Command(
    "earshot", "Talk to earshotd, the Bluetooth proximity service.",
    details: [
      "Exit status: 0 done, 1 failed, 2 usage, 3 the service is not running, 4 not allowed, 5 no answer in time."
    ],
    options: [
      Option("bus", value: .text("ADDRESS"), "system (the default), session, or a D-Bus address."),
      Option("bus-name", value: .text("NAME"), "The service's name on the bus (org.earshot)."),
      Option("json", "Write JSON."),
      Option("timeout", value: .seconds("SECONDS"), "How long an answer may take (25)."),
    ],
    commands: [
      Command(
        "status", "Show how the service stands.",
        options: [
          Option("wait", value: .seconds("SECONDS"), "Wait so long for the service to be there.")
        ]),
      Command(
        "verifier", "Receive credentials.",
        commands: [
          Command("start", "Begin to wait for wallets, and show the QR code."),
          Command("stop", "Leave the air."),
          Command(
            "show", "Show the QR code for the next wallet.",
            options: [Option("uri", "Write its text only.")]),
          Command(
            "watch", "Show QR codes, progress, and what is received, until interrupted.",
            options: [
              Option("once", "End after one transfer; its failure is this command's."),
              Option("accept", "Accept each credential."),
              Option("reject", "Reject each credential."),
              Option("output", short: "o", value: .file("FILE"), "Write each credential to this file."),
              Option("quiet", short: "q", "Show no QR code and no excerpt."),
            ]),
        ]),
      Command(
        "wallet", "Bring credentials to verifiers.",
        commands: [
          Command(
            "send", "Give a credential to the verifier with this QR code, and wait for its verdict.",
            options: [Option("uri", value: .text("URI"), "The text of the verifier's QR code.")],
            arguments: [Argument(.file("FILE"), "The credential; - is standard input.")])
        ]),
      Command("monitor", "Write every event of the service as a line, until interrupted."),
      Command(
        "completion", "Write the completion file for a shell.",
        arguments: [Argument(.choice("SHELL", Shell.allCases.map(\.rawValue)), "bash, zsh or fish.")]),
    ],
    defaultCommand: "status")
}
