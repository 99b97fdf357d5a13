@testable import DBus

extension ManualPage {
  /// Adds the sections of an interface: methods, signals and properties.
  mutating func add(_ interface: Interface) {
    section("INTERFACE \(interface.name)")
    paragraph(interface.documentation)
    if interface.audience == .group { paragraph("For the group: other programs do not see objects of this kind.") }
    if !interface.methods.isEmpty { subsection("Methods") }
    for method in interface.methods { add(method) }
    if !interface.signals.isEmpty { subsection("Signals") }
    for signal in interface.signals {
      item("\(signal.name)(\(Self.list(signal.arguments)))", signal.documentation)
    }
    if !interface.properties.isEmpty { subsection("Properties") }
    for property in interface.properties {
      let audience = property.audience == .group ? "the group" : "everybody"
      let content = Self.content(of: interface.signalled(property))
      item(
        "\(property.name) \(property.signature)",
        "\(property.documentation) For \(audience); change signal: \(content).")
    }
  }

  private mutating func add(_ method: Method) {
    let result = method.out.isEmpty ? "" : " -> \(Self.list(method.out))"
    let errors = method.errors.compactMap { $0.split(separator: ".").last.map(String.init) }
    item(
      "\(method.name)(\(Self.list(method.in)))\(result)",
      method.documentation + (errors.isEmpty ? "" : " Errors: \(errors.joined(separator: ", "))."))
  }

  private static func list(_ arguments: [Argument]) -> String {
    arguments.map { "\($0.name) \($0.signature)" }.joined(separator: ", ")
  }

  /// The content of the signal about a change.
  private static func content(of emits: Property.Emits) -> String {
    switch emits {
    case .changes: "value"
    case .invalidates: "name"
    case .const: "constant"
    case .none: "none"
    }
  }
}
