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
      "Whether this machine hears the public feed nearby (PBLEC), and says something when a program wants it to. All of it "
        + "is in clear, for everybody, and unsigned."),
    Setting(
      "NotifyLimit", \.notifyLimit, .number(0...Limits.mostNotifications), .onReload,
      "How many times a day local programs are told that somebody nearby wants to talk. 0 is never. A number that was set over "
        + "D-Bus counts before it."),
    Setting(
      "FollowAddresses", \.followsAddresses, .bool, .onReload,
      "Whether the same message from a new address, within 4s and about as strong, is taken for the same: phones change their "
        + "addresses now and then, also while they say something. Two people who say the same at one time are then shown once."
    ),
    Setting(
      "Degraded", \.degraded, .bool, .onRestart,
      "Whether, where the management socket is not open to the service, bluetoothd is asked to send and to hear instead: names "
        + "go into the scan response, and what is heard may be incomplete. The feed calls itself degraded then."),
  ]
}
