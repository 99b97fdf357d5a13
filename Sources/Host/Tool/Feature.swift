import CommandLine

/// A part of the service that the configuration switches on. Where it is off, it has no object on the bus.
public struct Feature: Sendable {
  /// As it is called in "The … is off".
  public let name: String
  /// Its section of the configuration.
  public let section: String

  public init(_ name: String, section: String) {
    self.name = name
    self.section = section
  }

  /// Why its commands fail where it is off.
  public var isOff: Failure {
    Failure(
      .failed,
      "The \(name) is off. Put Enabled=yes into the section [\(section)] of /etc/earshot/earshot.conf, then: "
        + "sudo systemctl restart earshotd")
  }
}
