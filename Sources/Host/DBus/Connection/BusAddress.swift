import Glibc

/// Where a bus listens.
public enum BusAddress: Hashable, Sendable {
  case system
  case session
  /// A D-Bus address: `unix:path=/run/earshot/bus`.
  case address(String)

  /// As a person says it: `system`, `session`, or a D-Bus address.
  public init(words: String) {
    switch words {
    case "system": self = .system
    case "session": self = .session
    default: self = .address(words)
    }
  }

  /// The D-Bus address; for the two well-known buses from the environment, else where they always are.
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
