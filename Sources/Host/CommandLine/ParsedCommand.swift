/// A valid command line. Values were checked against their shapes, so reading them cannot fail; nil means that the
/// option or argument was not given.
public struct ParsedCommand: Sendable, Equatable {
  /// The verbs, without the program's name: `["radio", "show"]`.
  public let path: [String]
  /// The help for this command. If ``wantsHelp``, show it and do nothing else.
  public let help: String
  /// Whether the line requested help; arguments may then be missing.
  public let wantsHelp: Bool

  let options: [String: [String]]
  let arguments: [String: [String]]

  /// Whether the flag was given.
  public func flag(_ long: String) -> Bool { options[long] != nil }

  /// All values of an option, in order.
  public func values(_ long: String) -> [String] { options[long] ?? [] }

  /// The value of an option; of several the last one.
  public func value(_ long: String) -> String? { options[long]?.last }

  /// The value of an option with an integer shape.
  public func integer(_ long: String) -> Int? { value(long).flatMap { Int($0) } }

  /// The value of an option with a time shape.
  public func seconds(_ long: String) -> Duration? { value(long).flatMap { ValueShape.seconds($0) } }

  /// The first argument with this name: `argument("FILE")`.
  public func argument(_ name: String) -> String? { arguments[name]?.first }

  /// All arguments with this name.
  public func arguments(_ name: String) -> [String] { arguments[name] ?? [] }
}
