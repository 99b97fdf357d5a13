import HCI

/// A kernel channel that bypasses bluetoothd.
public enum KernelChannel<Way> {
  case open(Way)
  /// The configuration requests the channel, but the kernel refuses it; the reason states what is missing.
  case shut(String)
  /// The configuration does not request the channel.
  case off

  var way: Way? { if case .open(let way) = self { way } else { nil } }
}

/// The two kernel channels for functions that bluetoothd lacks: the management socket for exact advertisements, and raw
/// HCI for values to clients without a subscription.
public struct KernelChannels {
  public var management: KernelChannel<ManagementSocket>
  public var raw: KernelChannel<any RawHCI>

  public init(management: KernelChannel<ManagementSocket> = .off, raw: KernelChannel<any RawHCI> = .off) {
    self.management = management
    self.raw = raw
  }

  /// An instruction that gives the program a capability. The journal cuts sentences after 200 characters.
  static func remedy(_ capability: String) -> String {
    "Set AmbientCapabilities=\(capability) in the unit, or setcap cap_net_admin,cap_net_raw+ep"
  }
}
