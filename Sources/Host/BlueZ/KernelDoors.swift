import HCI

/// A way into the kernel beside bluetoothd.
public enum Door<Way> {
  case open(Way)
  /// The configuration asks for it and it cannot be opened; the reason says what is missing.
  case shut(String)
  /// The configuration does not ask for it.
  case off

  var way: Way? { if case .open(let way) = self { way } else { nil } }
}

/// The two ways to what bluetoothd cannot do over D-Bus: exact advertisements, by the management socket, and values for
/// clients that never subscribed, by raw HCI.
public struct KernelDoors {
  public var management: Door<ManagementSocket>
  public var raw: Door<any RawHCI>

  public init(management: Door<ManagementSocket> = .off, raw: Door<any RawHCI> = .off) {
    self.management = management
    self.raw = raw
  }

  /// How a program gets a capability, in the imperative. The journal cuts sentences after 200 characters.
  static func remedy(_ capability: String) -> String {
    "Give AmbientCapabilities=\(capability) in the unit, or setcap cap_net_admin,cap_net_raw+ep"
  }
}
