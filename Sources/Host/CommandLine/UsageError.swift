import Common

/// An error in a command line.
public struct UsageError: CodedError, Equatable {
  public enum Reason: Sendable, Equatable {
    case unknownCommand(String, meant: String?)
    case missingCommand
    /// The option as it was written, including dashes.
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
