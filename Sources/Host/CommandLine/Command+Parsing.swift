import Common

extension Command {
  /// Parses the words after the program's name.
  ///
  /// It accepts `--name`, `--name=value`, `--name value`, `-n`, `-nvalue`, `-n value` and combined flags (`-jv`), in
  /// any order with the arguments. Options follow the command that defines them or one of its verbs. After `--` no word
  /// is an option.
  public func parse(_ words: [String]) throws(UsageError) -> ParsedCommand {
    var parser = Parser(self)
    return try parser.parse(words)
  }

  private struct Parser {
    var command: Command
    var path: [String]
    var understood: [Option]
    var options: [String: [String]] = [:]
    var positional: [String] = []

    init(_ program: Command) {
      command = program
      path = [program.name]
      understood = program.options + [.help]
    }

    mutating func parse(_ words: [String]) throws(UsageError) -> ParsedCommand {
      var rest = words[...]
      var optionsEnded = false
      while let word = rest.popFirst() {
        if optionsEnded || word == "-" || !word.hasPrefix("-") {
          try take(word)
        } else if word == "--" {
          optionsEnded = true
        } else if word.hasPrefix("--") {
          try takeLong(word, &rest)
        } else {
          try takeShort(word, &rest)
        }
      }
      let wantsHelp = options[Option.help.long] != nil
      // Help without a verb describes the whole program, not its default verb.
      while !wantsHelp, !command.commands.isEmpty {
        guard let name = command.defaultCommand, let next = command.command(name) else { throw error(.missingCommand) }
        descend(to: next)
      }
      let arguments = wantsHelp ? [:] : try assigned()
      return ParsedCommand(
        path: Array(path.dropFirst()), help: command.help(path: path, options: understood), wantsHelp: wantsHelp,
        options: options, arguments: arguments)
    }

    private mutating func take(_ word: String) throws(UsageError) {
      guard !command.commands.isEmpty else { return positional.append(word) }
      guard let next = command.command(word) else {
        let meant = Spelling.nearest(to: word, among: command.commands.map(\.name))
        throw error(.unknownCommand(word, meant: meant))
      }
      descend(to: next)
    }

    private mutating func descend(to next: Command) {
      command = next
      path.append(next.name)
      understood = next.options + understood
    }

    private mutating func takeLong(_ word: String, _ rest: inout ArraySlice<String>) throws(UsageError) {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let spelling = parts.first ?? word
      guard let option = understood.first(where: { "--\($0.long)" == spelling }) else { throw unknown(spelling) }
      let attached = parts.count > 1 ? parts.last : nil
      guard let shape = option.value else {
        guard attached == nil else { throw error(.unexpectedValue(option: spelling)) }
        options[option.long, default: []].append("")
        return
      }
      guard let text = attached ?? rest.popFirst() else {
        throw error(.missingValue(option: spelling, name: shape.name))
      }
      try set(option, shape, text, spelling)
    }

    private mutating func takeShort(_ word: String, _ rest: inout ArraySlice<String>) throws(UsageError) {
      var letters = word.dropFirst()
      while let letter = letters.popFirst() {
        let spelling = "-\(letter)"
        guard let option = understood.first(where: { $0.short == letter }) else { throw unknown(spelling) }
        guard let shape = option.value else {
          options[option.long, default: []].append("")
          continue
        }
        guard let text = letters.isEmpty ? rest.popFirst() : String(letters) else {
          throw error(.missingValue(option: spelling, name: shape.name))
        }
        return try set(option, shape, text, spelling)
      }
    }

    private mutating func set(
      _ option: Option, _ shape: ValueShape, _ text: String, _ spelling: String
    ) throws(UsageError) {
      if let expected = shape.objection(to: text) {
        throw error(.badValue(of: spelling, text: text, expected: expected))
      }
      options[option.long, default: []].append(text)
    }

    /// The words that are not options, each with its argument.
    private func assigned() throws(UsageError) -> [String: [String]] {
      var result: [String: [String]] = [:]
      var rest = positional[...]
      for argument in command.arguments {
        if argument.count == .one, rest.isEmpty { throw error(.missingArgument(argument.name)) }
        while let word = rest.popFirst() {
          if let expected = argument.value.objection(to: word) {
            throw error(.badValue(of: argument.name, text: word, expected: expected))
          }
          result[argument.name, default: []].append(word)
          if argument.count != .any { break }
        }
      }
      if let word = rest.first { throw error(.tooMany(word)) }
      return result
    }

    private func unknown(_ spelling: String) -> UsageError {
      // A single letter has no useful nearest option.
      let candidates = spelling.hasPrefix("--") ? understood.map { "--\($0.long)" } : []
      return error(.unknownOption(spelling, meant: Spelling.nearest(to: spelling, among: candidates)))
    }

    private func error(_ reason: UsageError.Reason) -> UsageError {
      UsageError(reason: reason, path: path)
    }
  }
}
