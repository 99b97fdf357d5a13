import Config
import Sharing

/// Section `[Radio]`: the radio that the services share.
public struct RadioSettings: SettingsSection {
  public enum Backend: String, Sendable, CaseIterable {
    case bluez, air
  }

  public var backend = Backend.bluez
  /// Nil: the first available adapter.
  public var adapter: String?
  /// Nil: a simulated radio of this process alone.
  public var airSocket: String?
  public var notifyUnsubscribed = true
  public var startsBluetooth = true
  /// The connection interval to request from peers while a service needs fast links; nil: the kernel's default.
  public var linkInterval: ClosedRange<Duration>? = .microseconds(11_250) ... .milliseconds(15)
  public var selects2M = true
  /// Maximum links of the adapter, in either role.
  public var links = LinkLimits().links

  public init() {}

  /// The limits of the shared radio's links.
  public var linkLimits: LinkLimits {
    var limits = LinkLimits()
    limits.links = links
    return limits
  }

  public static let section = "Radio"
  public static let keys: [Setting<RadioSettings>] = [
    Setting(
      "Backend", \.backend, .choice, .onRestart,
      "The radio to use: the machine's Bluetooth through BlueZ, or the simulated air, which needs no Bluetooth."),
    Setting(
      "Adapter", \.adapter, .optional(.text(upTo: 32)), .onRestart,
      "The Bluetooth adapter by name (hci0) or address. Empty: the first one there is. On a simulated air: the address to "
        + "have."),
    Setting(
      "AirSocket", \.airSocket, .optional(.path(isSocket: true)), .onRestart,
      "The socket of the earshot-air hub whose simulated air is shared. Empty: an air of this process alone."),
    Setting(
      "Links", \.links, .number(1...64), .onReload,
      "How many links the adapter may have at one time. Where they are too few for what the services need, services that "
        + "have more than they need give some up."),
    Setting(
      "LinkInterval", \.linkInterval,
      .either(.steps(.microseconds(7_500) ... .seconds(4), step: .microseconds(1_250)), or: "kernel"), .onReload,
      "The shortest and the longest connection interval that peers are asked for while a service that wants fast links waits "
        + "for them; a phone may decline. New links of other programs have it meanwhile, too, and afterwards the adapter has "
        + "again what it had. With kernel it is left alone, usually at 30ms 50ms."),
    Setting(
      "Link2M", \.selects2M, .bool, .onReload,
      "Whether LE 2M, which is faster and does not reach as far, is selected meanwhile for new links, where the adapter has it. "
        + "Otherwise what is selected stays."),
    Setting(
      "NotifyUnsubscribed", \.notifyUnsubscribed, .bool, .onRestart,
      "Whether clients that never subscribe, as some apps on Android do not, get their answers by raw HCI, which takes "
        + "CAP_NET_RAW. BlueZ itself sends nothing to them."),
    Setting(
      "StartBluetooth", \.startsBluetooth, .bool, .onRestart,
      "Whether the message bus is asked to start bluetoothd where it does not run: after 5 seconds, then ever more seldom. "
        + "One that is disabled or masked stays off either way."),
  ]
}
