/// An interface of an object: methods, properties and signals, with their code and documentation.
public struct Interface: Sendable {
  public let name: String
  public let documentation: String
  /// The programs that see the interface of an object. An object with only interfaces for the group does not exist for other programs.
  public let audience: Audience
  public let methods: [Method]
  public let properties: [Property]
  public let signals: [Signal]

  /// - Parameter audience: an interface for everybody must be declared explicitly.
  public init(
    _ name: String, documentation: String = "", audience: Audience = .group, methods: [Method] = [],
    properties: [Property] = [], signals: [Signal] = []
  ) {
    precondition(Validity.isInterface(name), "not an interface's name: \(name)")
    self.name = name
    self.documentation = documentation
    self.audience = audience
    self.methods = methods
    self.properties = properties
    self.signals = signals
  }

  /// How `PropertiesChanged` reports a property of this interface (`EmitsChangedSignal`). A broadcast signal never
  /// contains the value of a property for the group.
  func signalled(_ property: Property) -> Property.Emits {
    property.emits == .changes && !audience.maySee(property.audience) ? .invalidates : property.emits
  }

  func method(_ name: String) -> Method? { methods.first { $0.name == name } }
  func property(_ name: String) -> Property? { properties.first { $0.name == name } }
}
