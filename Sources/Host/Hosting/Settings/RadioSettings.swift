import Config

/// Section `[Radio]`: which radio the services share.
public struct RadioSettings: SettingsSection {
  public enum Backend: String, Sendable, CaseIterable {
    case bluez, air
  }

  public var backend = Backend.bluez
  /// Nil: the first adapter there is.
  public var adapter: String?
  /// Nil: an air of this process alone.
  public var airSocket: String?
  public var notifyUnsubscribed = true

  public init() {}

  public static let section = "Radio"
  public static let keys: [Setting<RadioSettings>] = [
    Setting(
      "Backend", \.backend, .choice, .onRestart,
      "The radio to use: the machine's Bluetooth through BlueZ, or the simulated air, which needs no Bluetooth."),
    Setting(
      "Adapter", \.adapter, .optional(.text(upTo: 32)), .onRestart,
      "The Bluetooth adapter by name (hci0) or address. Empty: the first one there is."),
    Setting(
      "AirSocket", \.airSocket, .optional(.path(isSocket: true)), .onRestart,
      "The socket of the earshot-air hub whose simulated air is shared. Empty: an air of this process alone."),
    Setting(
      "NotifyUnsubscribed", \.notifyUnsubscribed, .bool, .onRestart,
      "Whether clients that never subscribe, as some apps on Android do not, get their answers by raw HCI, which takes "
        + "CAP_NET_RAW. BlueZ itself sends nothing to them."),
  ]
}
