import TestSupport
import Testing

@testable import CommandLine

@Suite struct HelpTests {
  @Test("The help text fits 80 columns")
  func width() {
    for (path, command, options) in example.places {
      let lines = command.help(path: path, options: options).split(separator: "\n")
      #expect(lines.allSatisfy { $0.count <= 80 }, "\(path)")
    }
  }

  @Test("The help of the program names its verbs and options")
  func program() throws {
    #expect(
      try example.parse(["--help"]).help == """
        Usage: earshot [OPTION...] [COMMAND]

        Talk to earshotd.

        Without a command, shows the status. The exit status is 0 if all went well, and
        3 if the service is not there.

        Commands:
          status                 Show the radio and the services. (default)
          verifier               Receive credentials: it's easy.
          present                Present a credential.
          log                    Set the level.

        Options:
          -j, --json             Write JSON.
          -t, --timeout=SECONDS  Give up after this time.
          -h, --help             Show this help.

        """)
  }

  @Test("The help of a verb names its arguments, its own options, and the options of the program")
  func verb() throws {
    #expect(
      try example.parse(["verifier", "start", "-h"]).help == """
        Usage: earshot verifier start [OPTION...] [NAME]

        Wait for wallets.

        Arguments:
          NAME                   The name to advertise.

        Options:
          -d, --dialect=DIALECT  Speak this dialect. One of 0.5, 0.4.
              --count=COUNT      Stop after so many credentials, which is a summary that
                                 needs more than one line.
          -j, --json             Write JSON.
          -t, --timeout=SECONDS  Give up after this time.
          -h, --help             Show this help.

        """)
    #expect(
      try example.parse(["present", "-h"]).help.hasPrefix("Usage: earshot present [OPTION...] URI [CREDENTIAL...]\n"))
  }

  @Test("In the help text a term that is too long for its column is on a line of its own")
  func longHeading() {
    let command = Command("x", "X.", options: [Option("an-option-with-a-long-name", value: .text("VALUE"), "Does it.")])
    let lines = command.help(path: ["x"], options: command.options).split(separator: "\n").suffix(2)
    #expect(lines == ["      --an-option-with-a-long-name=VALUE", "                                Does it."])
  }
}
