@testable import DBus

/// Formats interfaces as a documentation page.
enum InterfaceMarkdown {
  /// A section with tables of methods, signals and properties.
  static func render(_ interface: Interface) -> String {
    var text = "## \(interface.name)\n\n\(interface.documentation)\n"
    if interface.audience == .group { text += "\nFor the group: other programs do not see objects of this kind.\n" }
    if !interface.methods.isEmpty {
      text += table(["method", "takes", "returns", "", "errors"], interface.methods.map(row))
    }
    if !interface.signals.isEmpty {
      text += table(
        ["signal", "carries", ""], interface.signals.map { ["`\($0.name)`", list($0.arguments), $0.documentation] })
    }
    if !interface.properties.isEmpty {
      text += table(
        ["property", "type", "for", "signal", ""],
        interface.properties.map {
          [
            "`\($0.name)`", "`\($0.signature)`", $0.audience.rawValue, signalled(interface.signalled($0)),
            $0.documentation,
          ]
        })
    }
    return text
  }

  /// The content of the signal about a change.
  private static func signalled(_ emits: Property.Emits) -> String {
    switch emits {
    case .changes: "value"
    case .invalidates: "name"
    case .const: "constant"
    case .none: "none"
    }
  }

  private static func row(_ method: Method) -> [String] {
    let errors = method.errors.map { String($0.split(separator: ".").last ?? "") }.joined(separator: ", ")
    return ["`\(method.name)`", list(method.in), list(method.out), method.documentation, errors]
  }

  private static func list(_ arguments: [Argument]) -> String {
    arguments.map { "\($0.name) `\($0.signature)`" }.joined(separator: ", ")
  }

  private static func table(_ head: [String], _ rows: [[String]]) -> String {
    let lines = [head, head.map { _ in "---" }] + rows
    return "\n" + lines.map { "| " + $0.joined(separator: " | ") + " |\n" }.joined()
  }
}
