import Glibc

/// The address of a bus.
public enum BusAddress: Hashable, Sendable {
  case system
  case session
  /// A D-Bus address: `unix:path=/run/earshot/bus`.
  case address(String)

  /// Parses `system`, `session`, or a D-Bus address.
  public init(words: String) {
    switch words {
    case "system": self = .system
    case "session": self = .session
    default: self = .address(words)
    }
  }

  /// The D-Bus address; of the two well-known buses from the environment, or else the standard address.
  var string: String {
    switch self {
    case .system: environment("DBUS_SYSTEM_BUS_ADDRESS") ?? "unix:path=/run/dbus/system_bus_socket"
    case .session: environment("DBUS_SESSION_BUS_ADDRESS") ?? "unix:path=/run/user/\(getuid())/bus"
    case .address(let address): address
    }
  }
}

private func environment(_ name: String) -> String? {
  guard let value = getenv(name) else { return nil }
  let text = String(cString: value)
  return text.isEmpty ? nil : text
}
