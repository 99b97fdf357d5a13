/// Commands of the input line, and their help texts.
enum ChatWords {
  static let commands: [(name: String, arguments: String, help: String)] = [
    ("/msg", "NAME [TEXT]", "talk to one peer"),
    ("/all", "[TEXT]", "talk to everybody"),
    ("/who", "", "list the peers that are near"),
    ("/send", "FILE", "send a file of at most 1 MiB"),
    ("/clear", "", "empty the screen, and keep the messages"),
    ("/nick", "NAME", "change your nickname"),
    ("/favourite", "[NAME]", "mark or unmark a favourite"),
    ("/block", "[NAME]", "block or unblock a peer"),
    ("/verify", "[NAME|CODE]", "compare fingerprints, or read a code"),
    ("/help", "", "show this"),
    ("/quit", "", "leave (Ctrl-C)"),
  ]

  static var help: [String] {
    commands.map { "\($0.name)\($0.arguments.isEmpty ? "" : " " + $0.arguments) – \($0.help)" } + [
      "// at the beginning – a text that begins with a slash",
      "Tab – completes names and commands; Ctrl-N, Ctrl-P – the next and the previous conversation; "
        + "Ctrl-G – the next one with something unread; PgUp, PgDn – older and newer messages; Up, Down – what you sent",
      "· waiting, ✓ sent, ✓✓ delivered, ✓✓ read; ✗ failed",
      "Beside a peer: ▂▄▆█ how well a neighbour is heard, 2 so many hops away; ✓ verified, ★ favourite, × blocked; "
        + "a number: so much is unread",
    ]
  }
}
