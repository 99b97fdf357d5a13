/// A command line that makes sense. Values were checked against their shapes, so asking for them cannot fail: what is
/// nil was not given.
public struct ParsedCommand: Sendable, Equatable {
  /// The verbs, without the program's name: `["radio", "show"]`.
  public let path: [String]
  /// The help for this command; it is to be shown, and nothing else done, if ``wantsHelp``.
  public let help: String
  /// True if the line asked for help; arguments may be missing then.
  public let wantsHelp: Bool

  let options: [String: [String]]
  let arguments: [String: [String]]

  /// True if the flag was given.
  public func flag(_ long: String) -> Bool { options[long] != nil }

  /// All values of an option, in their order.
  public func values(_ long: String) -> [String] { options[long] ?? [] }

  /// The value of an option; if it was given several times, the last one.
  public func value(_ long: String) -> String? { options[long]?.last }

  /// The value of an option whose shape is a whole number.
  public func integer(_ long: String) -> Int? { value(long).flatMap { Int($0) } }

  /// The value of an option whose shape is a time.
  public func seconds(_ long: String) -> Duration? { value(long).flatMap { ValueShape.seconds($0) } }

  /// The first argument with this name: `argument("FILE")`.
  public func argument(_ name: String) -> String? { arguments[name]?.first }

  /// All arguments with this name.
  public func arguments(_ name: String) -> [String] { arguments[name] ?? [] }
}
