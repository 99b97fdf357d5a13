import Config
import PBLEC

extension BroadcastService {
  /// Section `[Broadcast]`.
  public struct Settings: SettingsSection {
    public var enabled = false
    /// Maximum notifications in a day, unless a program has set another number.
    public var notifyLimit = Limits.notifications
    public var followsAddresses = false
    public var degraded = false

    public init() {}

    var engine: BroadcastEngine.Configuration {
      var configuration = BroadcastEngine.Configuration()
      configuration.followsAddresses = followsAddresses
      return configuration
    }
  }
}

extension BroadcastService.Settings {
  public static let section = "Broadcast"

  /// Memory of messages, peers, and reports that wait for the loop: 2 MiB if enabled.
  public var memory: Int { enabled ? 2 << 20 : 0 }

  public static let keys: [Setting<BroadcastService.Settings>] = [
    Setting(
      "Enabled", \.enabled, .bool, .onRestart,
      "Whether this machine receives the local broadcast channel (PBLEC), and broadcasts messages for programs. All "
        + "messages are in clear, for everybody, and unsigned."),
    Setting(
      "NotifyLimit", \.notifyLimit, .number(0...Limits.mostNotifications), .onReload,
      "How many times a day local programs are notified that somebody nearby wants to talk. 0 is never. A number that "
        + "was set over D-Bus takes precedence."),
    Setting(
      "FollowAddresses", \.followsAddresses, .bool, .onReload,
      "Whether the same message from a new address, within 4s and with a similar signal strength, is treated as one "
        + "message: phones change their addresses now and then, also during a message. Two people who send the same "
        + "text at the same time are then shown once."
    ),
    Setting(
      "Degraded", \.degraded, .bool, .onRestart,
      "Whether to send and receive by bluetoothd if the service has no access to the management socket: names go into "
        + "the scan response, and received messages may be incomplete. The state is then degraded."),
  ]
}
