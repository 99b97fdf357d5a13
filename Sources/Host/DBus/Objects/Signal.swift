/// A signal that an object may send.
public struct Signal: Hashable, Sendable {
  public let name: String
  public let arguments: [Argument]
  public let documentation: String

  public init(_ name: String, _ arguments: [Argument] = [], documentation: String = "") {
    precondition(Validity.isMember(name), "not a signal's name: \(name)")
    self.name = name
    self.arguments = arguments
    self.documentation = documentation
  }
}
