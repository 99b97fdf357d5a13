/// The commands of the input line, and what is said about them.
enum ChatWords {
  static let commands: [(name: String, arguments: String, help: String)] = [
    ("/msg", "NAME [TEXT]", "open a conversation with one peer, or send that peer a text"),
    ("/all", "[TEXT]", "back to everybody, or send everybody a text"),
    ("/who", "", "list the peers that are near"),
    ("/send", "FILE", "send a file, of 1 MiB at most, to the open conversation"),
    ("/clear", "", "empty the screen; the service keeps the messages"),
    ("/nick", "NAME", "call yourself otherwise"),
    ("/favourite", "[NAME]", "make a peer a favourite, or take that back"),
    ("/block", "[NAME]", "hear no more of a peer, or take that back"),
    ("/verify", "[NAME|CODE]", "compare fingerprints with a peer, or have it prove the code that it shows"),
    ("/help", "", "this"),
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
