import Config

/// Settings of section `[PresenceRadio]`: Bluetooth for `earshot-presenced`.
public struct PresenceRadioSettings: SettingsSection, Equatable {
  /// The times at which peers can connect to the adapter.
  public enum Reachability: String, CaseIterable, Sendable {
    /// Peers can connect while `earshot-presenced` announces itself.
    case auto
    /// Peers can never connect, so no announcement is made by Bluetooth.
    case no
  }

  public var enabled = true
  public var reachable = Reachability.auto
  public var isLiteral = false

  public init() {}

  public static let section = "PresenceRadio"

  /// Memory of the buffers of 30 links.
  public var memory: Int { enabled ? 20 << 20 : 0 }

  public static let keys: [Setting<PresenceRadioSettings>] = [
    Setting(
      "Enabled", \.enabled, .bool, .onRestart,
      "Whether earshot-presenced may use Bluetooth: advertise, scan, and open and accept RFCOMM links. Nothing is done "
        + "unless earshot-presenced runs."),
    Setting(
      "Reachable", \.reachable, .choice, .onReload,
      "When peers can connect to the adapter by RFCOMM. auto: while something is announced. Meanwhile the kernel sends "
        + "all advertisements as connectable ones, from the adapter's own address. no: never, and nothing is announced "
        + "by Bluetooth."),
    Setting(
      "LiteralAdvertisement", \.isLiteral, .bool, .onReload,
      "Whether to advertise the form that the document of 2015 prints, instead of the form that phones send. It claims a "
        + "16-bit UUID that belongs to somebody else. Use it only to test receivers."),
  ]
}
