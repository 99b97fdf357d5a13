import Common

extension Command {
  /// Parses the words after the program's name.
  ///
  /// It accepts `--name`, `--name=value`, `--name value`, `-n`, `-nvalue`, `-n value` and combined flags (`-jv`), in
  /// any order with the arguments. Options follow the command that defines them or one of its verbs; an option of the
  /// default verb selects that verb. After `--` no word is an option.
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

    /// Selects the default verb for an option that this command lacks and the default verb has.
    private mutating func descendToDefault(_ isMeant: (Option) -> Bool) {
      guard !understood.contains(where: isMeant), let name = command.defaultCommand, let next = command.command(name),
        next.options.contains(where: isMeant)
      else { return }
      descend(to: next)
    }

    private mutating func takeLong(_ word: String, _ rest: inout ArraySlice<String>) throws(UsageError) {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let spelling = parts.first ?? word
      descendToDefault { "--\($0.long)" == spelling }
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
        descendToDefault { $0.short == letter }
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

/// A valid command line. Values were checked against their shapes, so reading them cannot fail; nil means that the
/// option or argument was not given.
public struct ParsedCommand: Sendable, Equatable {
  /// The verbs, without the program's name: `["radio", "show"]`.
  public let path: [String]
  /// The help text of this command. If ``wantsHelp`` is true, the program prints this text and exits.
  public let help: String
  /// Whether the line requested help; arguments may then be missing.
  public let wantsHelp: Bool

  let options: [String: [String]]
  let arguments: [String: [String]]

  /// Whether the flag was given.
  public func flag(_ long: String) -> Bool { options[long] != nil }

  /// All values of an option, in order.
  public func values(_ long: String) -> [String] { options[long] ?? [] }

  /// The value of an option; if it was given several times, the last value.
  public func value(_ long: String) -> String? { options[long]?.last }

  /// The value of an option with an integer shape.
  public func integer(_ long: String) -> Int? { value(long).flatMap { Int($0) } }

  /// The value of an option with a time shape.
  public func seconds(_ long: String) -> Duration? { value(long).flatMap { ValueShape.seconds($0) } }

  /// The first value of the argument with this name, for example `argument("FILE")`; nil if it was not given.
  public func argument(_ name: String) -> String? { arguments[name]?.first }

  /// All values of the argument with this name, in order; empty if it was not given.
  public func arguments(_ name: String) -> [String] { arguments[name] ?? [] }
}

/// An error in a command line.
public struct UsageError: CodedError, Equatable {
  public enum Reason: Sendable, Equatable {
    case unknownCommand(String, meant: String?)
    case missingCommand
    /// An option that the command does not have. The first value is the option as it was written, including dashes, and
    /// `meant` the nearest known one.
    case unknownOption(String, meant: String?)
    case missingValue(option: String, name: String)
    case unexpectedValue(option: String)
    case badValue(of: String, text: String, expected: String)
    case missingArgument(String)
    case tooMany(String)
  }

  public let reason: Reason
  /// The names of the program and the verbs, up to the error.
  public let path: [String]

  public var code: String { "usage" }

  public var sentence: String {
    switch reason {
    case .unknownCommand(let word, let meant): "There is no command \(word).\(Self.guess(meant))"
    case .missingCommand: "A command is missing."
    case .unknownOption(let option, let meant): "There is no option \(option).\(Self.guess(meant))"
    case .missingValue(let option, let name): "\(option) needs a value: \(option) \(name)."
    case .unexpectedValue(let option): "\(option) takes no value."
    case .badValue(let place, let text, let expected): "\(place): \(text) is not \(expected)."
    case .missingArgument(let name): "\(name) is missing."
    case .tooMany(let word): "\(word) is one argument too many."
    }
  }

  /// A suggestion for the next call: `Try: earshot status --help`.
  public var hint: String { "Try: \(path.joined(separator: " ")) --help" }

  private static func guess(_ meant: String?) -> String {
    meant.map { " Did you mean \($0)?" } ?? ""
  }
}
