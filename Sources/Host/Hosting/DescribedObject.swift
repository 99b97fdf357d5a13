import DBus

/// A bus object for the documentation.
public struct DescribedObject: Sendable {
  /// The object's path: `/org/earshot`; a final capital `N` stands for a number.
  public let path: String
  public let interface: Interface

  public init(_ path: String, _ interface: Interface) {
    self.path = path
    self.interface = interface
  }
}
