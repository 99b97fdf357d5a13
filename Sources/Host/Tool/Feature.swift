import CommandLine

/// A part of the service that the configuration can switch off. It then has no object on the bus.
public struct Feature: Sendable {
  /// The name in "The … is off".
  public let name: String
  /// Its section of the configuration.
  public let section: String

  public init(_ name: String, section: String) {
    self.name = name
    self.section = section
  }

  /// The error of its commands if it is off.
  public var isOff: Failure {
    Failure(
      .failed,
      "The \(name) is off. Put Enabled=yes into the section [\(section)] of /etc/earshot/earshot.conf, then: "
        + "sudo systemctl restart earshotd")
  }
}
