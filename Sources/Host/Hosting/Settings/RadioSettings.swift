import Config
import Sharing

/// Section `[Radio]`: the radio that the services share.
public struct RadioSettings: SettingsSection {
  public enum Backend: String, Sendable, CaseIterable {
    case bluez, air
  }

  /// Whether this machine opens RFCOMM streams to peers.
  public enum OpenStreams: String, Sendable, CaseIterable {
    case auto, yes, no
  }

  public var backend = Backend.bluez
  /// The adapter to use; nil means the first available one.
  public var adapter: String?
  /// The socket of a simulated radio; nil means a simulated radio of this process alone.
  public var airSocket: String?
  public var notifyUnsubscribed = true
  public var startsBluetooth = true
  public var openStreams = OpenStreams.auto
  /// The connection interval to request from peers while a service needs fast links; nil means the kernel's default.
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
      "The radio to use: the machine's Bluetooth through BlueZ, or the simulated radio (air), which needs no "
        + "Bluetooth."),
    Setting(
      "Adapter", \.adapter, .optional(.text(upTo: 32)), .onRestart,
      "The Bluetooth adapter, by name (hci0) or address. Empty: the first available one. On a simulated radio: the "
        + "address of this node."),
    Setting(
      "AirSocket", \.airSocket, .optional(.path(isSocket: true)), .onRestart,
      "The socket of the earshot-air hub whose simulated radio is shared. Empty: a simulated radio of this process "
        + "alone."),
    Setting(
      "Links", \.links, .number(1...64), .onReload,
      "Maximum links of the adapter at one time. If a service lacks links that it needs, services with more links than "
        + "they need close some."),
    Setting(
      "LinkInterval", \.linkInterval,
      .either(.steps(.microseconds(7_500) ... .seconds(4), step: .microseconds(1_250)), or: "kernel"), .onReload,
      "The shortest and longest connection interval to request from peers while a service waits for fast links; a "
        + "phone may decline. New links of other programs use it meanwhile, too. Afterwards the adapter's previous "
        + "interval is restored. kernel: the kernel's interval is not changed, usually 30ms 50ms."),
    Setting(
      "Link2M", \.selects2M, .bool, .onReload,
      "Whether to select LE 2M for new links while a service waits for fast links, if the adapter supports it. LE 2M "
        + "is faster and has a shorter range. no: the adapter's selection is not changed."),
    Setting(
      "NotifyUnsubscribed", \.notifyUnsubscribed, .bool, .onRestart,
      "Whether to send answers by raw HCI, which requires CAP_NET_RAW, to clients that never subscribe (some apps on "
        + "Android). BlueZ itself sends nothing to such clients."),
    Setting(
      "StartBluetooth", \.startsBluetooth, .bool, .onRestart,
      "Whether to ask the message bus to start bluetoothd if it is not running: after 5 seconds, then at growing "
        + "intervals. A disabled or masked bluetoothd stays off in any case."),
    Setting(
      "OpenStreams", \.openStreams, .choice, .onRestart,
      "Whether private presence opens RFCOMM streams to peers. Some kernels crash if a peer does not answer. auto: "
        + "on kernels that were tried and withstand it. yes: on every kernel. no: only peers open streams."),
  ]
}
