import CommandLine
import DBus

/// The reason why a command failed, with what to do.
public struct Failure: Error {
  /// Prefix of the bus's errors if systemd does not start a service for it: NoSuchUnit if it is not enabled,
  /// UnitMasked.
  private static let systemdErrors = "org.freedesktop.systemd1."

  public let code: ExitCode
  public let text: String
  /// Whether the call was refused because a limit of the service is reached. The same call may succeed later.
  public var isOfLimit = false

  public init(_ code: ExitCode, _ text: String) {
    self.code = code
    self.text = text
  }

  /// - Parameters:
  ///   - service: the service's bus name.
  ///   - unit: its systemd unit.
  public init(_ error: DBusError, service: String, unit: String = ToolTarget.earshotd.unit) {
    if error.name.hasPrefix(Self.systemdErrors) {
      self.init(
        .notRunning, "\(service) is not running, and the bus cannot start it. Try: systemctl enable --now \(unit)")
      return
    }
    switch DBusError.Name(rawValue: error.name) {
    case .serviceUnknown?, .nameHasNoOwner?:
      self.init(.notRunning, "\(service) is not running. Try: systemctl start \(unit)")
    case .disconnected?:
      self.init(.notRunning, "\(error.message) Is the bus running? --bus selects another bus.")
    // The bus's message is about match rules of its policy, which does not help the user.
    case .denied?, .accessDenied?: self = .outsider
    case .timeout?, .noReply?:
      self.init(.timeout, "\(error.message) Try a longer --timeout, or see: journalctl -u \(unit)")
    case .limitExceeded?:
      self.init(.failed, error.message)
      isOfLimit = true
    default: self.init(.failed, error.message)
    }
  }
}
