import CommandLine

/// A sample command grammar with every kind of element: verbs, options, arguments and values.
public let example = Command(
  "earshot", "Talk to earshotd.",
  details: [
    "Without a command, shows the status. The exit status is 0 if all went well, and 3 if the service is not there."
  ],
  options: [
    Option("json", short: "j", "Write JSON."),
    Option("timeout", short: "t", value: .seconds("SECONDS"), "Give up after this time."),
  ],
  commands: [
    Command("status", "Show the radio and the services.", options: [Option("verbose", short: "v", "Show more.")]),
    Command(
      "verifier", "Receive credentials: it's easy.",
      commands: [
        Command(
          "start", "Wait for wallets.",
          options: [
            Option("dialect", short: "d", value: .choice("DIALECT", ["0.5", "0.4"]), "Speak this dialect."),
            Option(
              "count", value: .integer("COUNT", 1...9),
              "Stop after so many credentials, which is a summary that needs more than one line."),
          ],
          arguments: [Argument(.text("NAME"), "The name to advertise.", count: .optional)]),
        Command("stop", "Leave the air."),
      ]),
    Command(
      "present", "Present a credential.",
      options: [Option("receipt", value: .file("FILE"), "Write a receipt.")],
      arguments: [
        Argument(.text("URI"), "The verifier's invitation."),
        Argument(.file("CREDENTIAL"), "What to present.", count: .any),
      ]),
    Command("log", "Set the level.", arguments: [Argument(.choice("LEVEL", ["info", "debug"]), "How much to log.")]),
  ],
  defaultCommand: "status")
