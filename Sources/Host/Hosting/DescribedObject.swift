import DBus

/// An object on the bus as documentation shows it.
public struct DescribedObject: Sendable {
  /// Where it is found: `/org/earshot`; a capital `N` at its end stands for a number.
  public let path: String
  public let interface: Interface

  public init(_ path: String, _ interface: Interface) {
    self.path = path
    self.interface = interface
  }
}
