/// A program or one of its verbs. Parsing, help and completion use the same description.
///
/// A command has either verbs or arguments. Its verbs accept its options, too.
public struct Command: Sendable, Equatable {
  public let name: String
  /// A description, one line.
  public let summary: String
  /// Further information, in paragraphs.
  public let details: [String]
  public let options: [Option]
  public let arguments: [Argument]
  public let commands: [Command]
  /// The verb that applies if none is given.
  public let defaultCommand: String?

  /// - Parameter defaultCommand: the name of one of `commands`.
  public init(
    _ name: String, _ summary: String, details: [String] = [], options: [Option] = [], arguments: [Argument] = [],
    commands: [Command] = [], defaultCommand: String? = nil
  ) {
    self.name = name
    self.summary = summary
    self.details = details
    self.options = options
    self.arguments = arguments
    self.commands = commands
    self.defaultCommand = defaultCommand
  }

  func command(_ name: String) -> Command? {
    commands.first { $0.name == name }
  }

  /// Every command of the tree, with the names that lead to it and the options that it accepts, its own first.
  var places: [(path: [String], command: Command, options: [Option])] {
    walk(above: [], options: [.help])
  }

  private func walk(above: [String], options inherited: [Option]) -> [([String], Command, [Option])] {
    let understood = options + inherited
    return [(above + [name], self, understood)]
      + commands.flatMap { $0.walk(above: above + [name], options: understood) }
  }
}
