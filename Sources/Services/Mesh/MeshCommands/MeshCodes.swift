import Tool

/// The codes of the mesh: reasons why a message or a command is rejected, delivery states, and states of the node.
enum MeshCodes {
  static let all: [CodeMeaning] =
    refusals.map { CodeMeaning($0.code, kind: "refusal of the mesh", $0.meaning, remedy: $0.remedy) }
    + states.map { CodeMeaning($0.code, kind: "delivery state of a message", $0.meaning) }
    + nodeStates.map { CodeMeaning($0.code, kind: "state of the mesh node", $0.meaning, remedy: $0.remedy) }

  private static let refusals: [(code: String, meaning: String, remedy: String)] = [
    ("EmptyText", "The text is empty.", ""),
    ("TextTooLong", "The text is longer than the apps accept.", "Divide it into several messages."),
    ("UnknownPeer", "No known peer has this name or ID.", "earshot mesh peers lists the known peers."),
    ("AmbiguousPeer", "Several peers have this name.", "Name one by its ID, or with the four digits behind its name."),
    ("TooManyWait", "Too many private messages wait for delivery.", "Wait until their receivers are in range."),
    ("LinksFull", "The queues of the links to the neighbours are full.", "Try again in some seconds."),
    (
      "TooManyPublicMessages", "Neighbours accept no more public messages from one peer in a minute.",
      "Try again later."
    ),
    ("TooManyPings", "Too many pings wait for their answers.", "Try again in some seconds."),
    (
      "RelayOnly", "The node is a relay, which has no messages and files of its own.",
      "Set another Role= in the section [Mesh]."
    ),
    ("EmptyFile", "The file is empty.", ""),
    ("FileTooLong", "The file has more than 1 MiB.", ""),
    (
      "OtherKind", "The content of the file is not of the given type, or the apps do not accept the type.",
      "Send it as application/octet-stream."
    ),
    ("TooManyFiles", "Eight files are already being sent.", "Wait for one of them: earshot mesh files"),
    ("Ourselves", "The peer is this node itself.", ""),
    (
      "FavouriteNotice", "The apps take a private text that begins with [FAVORITED] or [UNFAVORITED] for a notice.",
      "Begin the text with another character."
    ),
  ]

  private static let states: [(code: String, meaning: String)] = [
    ("unread", "The message of another peer has not been marked as read."),
    ("seen", "The message of another peer has been marked as read."),
    ("waiting", "The message waits for its receiver."),
    ("sent", "The message was sent, and the receiver has not acknowledged it."),
    ("delivered", "The receiver has the message."),
    ("read", "The receiver has read the message."),
    ("failed", "The message could not be delivered, and is not sent again."),
  ]

  private static let nodeStates: [(code: String, meaning: String, remedy: String)] = [
    ("stopped", "The node neither sends nor receives.", "earshot mesh shows the reason."),
    (
      "waitingForClock", "The node sends nothing, because the clock of this machine is not known to be right.",
      "Let a time service set the clock, or set TrustClock=yes in the section [Mesh]."
    ),
    ("alone", "The node works, and has no neighbours.", ""),
    ("connected", "The node has neighbours.", ""),
  ]
}
