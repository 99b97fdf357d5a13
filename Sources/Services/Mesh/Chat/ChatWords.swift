/// Commands of the input line, and their help texts.
enum ChatWords {
  static let commands: [(name: String, arguments: String, help: String)] = [
    ("/msg", "NAME [TEXT]", "talk to one peer"),
    ("/all", "[TEXT]", "talk to everybody"),
    ("/who", "", "list the peers in range"),
    ("/send", "FILE", "send a file of at most 1 MiB"),
    ("/clear", "", "clear the screen; the messages stay stored"),
    ("/nick", "NAME", "change your nickname"),
    ("/favourite", "[NAME]", "mark or unmark a favourite"),
    ("/block", "[NAME]", "block or unblock a peer"),
    ("/verify", "[NAME|CODE]", "compare fingerprints, or read a code"),
    ("/help", "", "show this help"),
    ("/quit", "", "leave (Ctrl-C)"),
  ]

  static var help: [String] {
    commands.map { "\($0.name)\($0.arguments.isEmpty ? "" : " " + $0.arguments) – \($0.help)" } + [
      "// at the beginning – a text that begins with a slash",
      "Tab – completes names and commands; Ctrl-N, Ctrl-P – the next and the previous conversation; Ctrl-G – the next "
        + "one with unread messages; PgUp, PgDn – older and newer messages; Up, Down – your sent lines",
      "· waiting, ✓ sent, ✓✓ delivered, ✓✓ read; ✗ failed",
      "Beside a peer: ▂▄▆█ signal strength of a neighbour, 2 number of hops; ✓ verified, ★ favourite, × blocked; at "
        + "the end: number of unread messages",
    ]
  }
}
