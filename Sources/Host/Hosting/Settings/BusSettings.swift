import Config
import DBus

/// Section `[Bus]`: limits on callers on the message bus.
public struct BusSettings: SettingsSection {
  public var limits = BusLimits()

  public init() {}

  /// Maximum unhandled received bytes and unsent bytes, of this connection and of the radio's.
  public var memory: Int { limits.received + limits.outgoing + Self.radio.received + Self.radio.outgoing }

  /// The limits of the radio's own connection, which carries characteristic values and bluetoothd's objects.
  public static var radio: BusLimits {
    var limits = BusLimits()
    limits.received = 16 << 20
    limits.outgoing = 4 << 20
    return limits
  }

  public static let section = "Bus"
  public static let keys: [Setting<BusSettings>] = [
    Setting(
      "WaitingCallers", \.limits.waitingCallers, .number(1...4096), .onRestart,
      "How many callers the bus may be asked about at one time: who they are. The calls of one more are refused."),
    Setting(
      "WaitingCalls", \.limits.waitingCalls, .number(1...4096), .onRestart,
      "How many calls of one caller wait until it is known who that is. One more is refused."),
    Setting(
      "CallsPerSecond", \.limits.callsPerSecond, .number(10...100_000), .onRestart,
      "How many calls one caller may make in a second, over time; a call for everything there is counts as 16, and each 4 KiB of "
        + "an answer as one more. One that was quiet may make those of five seconds at once. One more is refused."),
  ]
}
