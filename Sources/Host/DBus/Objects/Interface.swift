/// What an object can do under one name: methods, properties and signals, with their code and their documentation.
public struct Interface: Sendable {
  public let name: String
  public let documentation: String
  public let methods: [Method]
  public let properties: [Property]
  public let signals: [Signal]

  public init(
    _ name: String, documentation: String = "", methods: [Method] = [], properties: [Property] = [],
    signals: [Signal] = []
  ) {
    precondition(Validity.isInterface(name), "not an interface's name: \(name)")
    self.name = name
    self.documentation = documentation
    self.methods = methods
    self.properties = properties
    self.signals = signals
  }

  func method(_ name: String) -> Method? { methods.first { $0.name == name } }
  func property(_ name: String) -> Property? { properties.first { $0.name == name } }
}
