import CommandLine
import DBus

/// Why a command failed, with what to do about it.
public struct Failure: Error {
  /// What the bus answers with where systemd does not start a service for it: NoSuchUnit where it is not enabled, UnitMasked.
  private static let systemdErrors = "org.freedesktop.systemd1."

  public let code: ExitCode
  public let text: String
  /// Whether the service is at a limit now: the same call may succeed later.
  public var isOfLimit = false

  public init(_ code: ExitCode, _ text: String) {
    self.code = code
    self.text = text
  }

  /// - Parameter service: the service's name on the bus.
  public init(_ error: DBusError, service: String) {
    if error.name.hasPrefix(Self.systemdErrors) {
      self.init(
        .notRunning, "\(service) is not running, and the bus cannot start it. Try: systemctl enable --now earshotd")
      return
    }
    switch DBusError.Name(rawValue: error.name) {
    case .serviceUnknown?, .nameHasNoOwner?:
      self.init(.notRunning, "\(service) is not running. Try: systemctl start earshotd")
    case .disconnected?:
      self.init(.notRunning, "\(error.message) Is the bus running? --bus names another.")
    // The sentence of the bus is about match rules of its policy.
    case .denied?, .accessDenied?: self = .outsider
    case .timeout?, .noReply?:
      self.init(.timeout, "\(error.message) Try again with --timeout, or look: journalctl -u earshotd")
    case .limitExceeded?:
      self.init(.failed, error.message)
      isOfLimit = true
    default: self.init(.failed, error.message)
    }
  }
}
