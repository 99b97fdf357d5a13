/// A program or one of its verbs. Parsing, help and completion use the same description.
///
/// A command has either verbs or arguments. Its verbs accept its options, too.
public struct Command: Sendable, Equatable {
  public let name: String
  /// A description, one line.
  public let summary: String
  /// Further paragraphs of the help text, below the summary.
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

/// A flag, or an option with a value.
public struct Option: Sendable, Equatable {
  /// The long name, without dashes: `json`.
  public let long: String
  public let short: Character?
  /// Shape of the option's value; nil for a flag.
  public let value: ValueShape?
  /// A description, one line.
  public let summary: String

  public init(_ long: String, short: Character? = nil, value: ValueShape? = nil, _ summary: String) {
    self.long = long
    self.short = short
    self.value = value
    self.summary = summary
  }

  /// The option `--help`, which every command accepts.
  static let help = Option("help", short: "h", "Show this help.")

  /// All spellings: `--timeout`, `-t`.
  var spellings: [String] { ["--\(long)"] + (short.map { ["-\($0)"] } ?? []) }
}

/// A positional argument of a command.
public struct Argument: Sendable, Equatable {
  /// The number of times that the argument may occur.
  public enum Count: Sendable, Equatable {
    case one, optional, any
  }

  public let value: ValueShape
  public let count: Count
  /// A description, one line.
  public let summary: String

  public init(_ value: ValueShape, _ summary: String, count: Count = .one) {
    self.value = value
    self.count = count
    self.summary = summary
  }

  /// The placeholder in the help text, and the key in a parsed command.
  public var name: String { value.name }
}

/// The valid values of an option or an argument. They are checked when the line is parsed, and offered by completion.
///
/// Each case carries the placeholder in the help text: `NAME`.
public enum ValueShape: Sendable, Equatable {
  case text(String)
  /// A path of a file or directory.
  case file(String)
  /// A whole number in this range.
  case integer(String, ClosedRange<Int>)
  /// A time in seconds, with at most nine digits after the point.
  case seconds(String)
  /// One of these words.
  case choice(String, [String])

  /// The placeholder in the help text.
  public var name: String {
    switch self {
    case .text(let name), .file(let name), .integer(let name, _), .seconds(let name), .choice(let name, _): name
    }
  }

  /// The form that `text` does not have, which completes "… is not …"; nil if the value is valid.
  func objection(to text: String) -> String? {
    switch self {
    case .text, .file:
      return nil
    case .integer(_, let range):
      guard let number = Int(text), range.contains(number) else {
        return "a number from \(range.lowerBound) to \(range.upperBound)"
      }
    case .seconds:
      if Self.seconds(text) == nil { return "a time in seconds" }
    case .choice(_, let words):
      if !words.contains(text) { return "one of \(words.joined(separator: ", "))" }
    }
    return nil
  }

  /// Parses `2` or `0.5`, up to a million seconds.
  static func seconds(_ text: String) -> Duration? {
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    let isNumber = parts.allSatisfy { part in
      !part.isEmpty && part.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
    guard isNumber, let whole = parts.first.flatMap({ Int64($0) }), whole <= 1_000_000 else { return nil }
    guard parts.count == 2, let fraction = parts.last else { return .seconds(whole) }
    let padded = fraction + String(repeating: "0", count: max(0, 9 - fraction.utf8.count))
    guard fraction.utf8.count <= 9, let nanoseconds = Int64(padded) else { return nil }
    return .seconds(whole) + .nanoseconds(nanoseconds)
  }
}

extension Command {
  /// The help text, at most 80 columns wide.
  /// - Parameters:
  ///   - path: the names of the commands, the program's first.
  ///   - options: all options that the command accepts.
  func help(path: [String], options: [Option]) -> String {
    var blocks = [usage(path: path), wrap(summary)] + details.map { wrap($0) }
    let rows: [(title: String, rows: [(String, String)])] = [
      ("Commands", commands.map { ($0.name, $0.summary + ($0.name == defaultCommand ? " (default)" : "")) }),
      ("Arguments", arguments.map { ($0.name, $0.summary) }),
      ("Options", options.map { (Self.heading($0), $0.summary + Self.choices($0)) }),
    ]
    let width = min(28, rows.flatMap(\.rows).map { $0.0.count }.max() ?? 0)
    for (title, rows) in rows where !rows.isEmpty {
      blocks.append("\(title):\n" + rows.map { Self.row($0.0, $0.1, width: width) }.joined(separator: "\n"))
    }
    return blocks.joined(separator: "\n\n") + "\n"
  }

  private func usage(path: [String]) -> String {
    var words = path + ["[OPTION...]"]
    if !commands.isEmpty { words.append(defaultCommand == nil ? "COMMAND" : "[COMMAND]") }
    for argument in arguments {
      switch argument.count {
      case .one: words.append(argument.name)
      case .optional: words.append("[\(argument.name)]")
      case .any: words.append("[\(argument.name)...]")
      }
    }
    return wrap("Usage: " + words.joined(separator: " "), indent: 7)
  }

  private static func heading(_ option: Option) -> String {
    let name = "--\(option.long)" + (option.value.map { "=\($0.name)" } ?? "")
    return (option.short.map { "-\($0), " } ?? "    ") + name
  }

  private static func choices(_ option: Option) -> String {
    guard case .choice(_, let words) = option.value else { return "" }
    return " One of \(words.joined(separator: ", "))."
  }

  private static func row(_ heading: String, _ text: String, width: Int) -> String {
    let indent = width + 4
    guard heading.count <= width else {
      return "  \(heading)\n" + String(repeating: " ", count: indent) + wrap(text, from: indent, indent: indent)
    }
    let gap = String(repeating: " ", count: width - heading.count + 2)
    return "  \(heading)\(gap)" + wrap(text, from: indent, indent: indent)
  }

  private func wrap(_ text: String, indent: Int = 0) -> String {
    Self.wrap(text, from: 0, indent: indent)
  }

  /// - Parameters:
  ///   - column: the column of the first character.
  ///   - indent: the column of further lines.
  private static func wrap(_ text: String, from column: Int, indent: Int) -> String {
    var result = ""
    var column = column
    var isLineStart = true
    for word in text.split(separator: " ") {
      if !isLineStart, column + 1 + word.count > 80 {
        result += "\n" + String(repeating: " ", count: indent)
        column = indent
        isLineStart = true
      }
      result += isLineStart ? word : " " + word
      column += word.count + (isLineStart ? 0 : 1)
      isLineStart = false
    }
    return result
  }
}
