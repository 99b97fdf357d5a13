@testable import CommandLine

extension ManualPage {
  /// Adds an item for each option that the command accepts, those of the commands above it excluded.
  mutating func addOptions(of command: Command) {
    for option in command.options + [.help] { add(option) }
  }

  /// Adds a subsection for each command below `command` that has no commands itself.
  ///
  /// - Parameters:
  ///   - path: the words that lead to `command`, with its own name.
  ///   - excluded: the command that has a page of its own.
  mutating func addCommands(of command: Command, at path: [String], except excluded: String = "") {
    for child in command.commands where child.name != excluded {
      if child.commands.isEmpty {
        add(child, at: path + [child.name])
      } else {
        addCommands(of: child, at: path + [child.name])
      }
    }
  }

  mutating func addExitStatuses() {
    for code in ExitCode.allCases { item("\(code.rawValue)", code.meaning) }
  }

  private mutating func add(_ command: Command, at path: [String]) {
    let words = command.arguments.map { argument in
      switch argument.count {
      case .one: argument.name
      case .optional: "[\(argument.name)]"
      case .any: "[\(argument.name)...]"
      }
    }
    subsection((path + (command.options.isEmpty ? [] : ["[OPTION...]"]) + words).joined(separator: " "))
    paragraph(command.summary)
    for argument in command.arguments { item(argument.name, argument.summary) }
    for option in command.options { add(option) }
  }

  private mutating func add(_ option: Option) {
    let name = "--\(option.long)" + (option.value.map { "=\($0.name)" } ?? "")
    var choices = ""
    if case .choice(_, let words)? = option.value { choices = " One of \(words.joined(separator: ", "))." }
    item((option.short.map { "-\($0), " } ?? "") + name, option.summary + choices)
  }
}
