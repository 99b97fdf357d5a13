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
      "Maximum callers whose identity is requested from the bus at one time. Calls of further callers are refused."),
    Setting(
      "WaitingCalls", \.limits.waitingCalls, .number(1...4096), .onRestart,
      "Maximum calls of one caller that wait until the caller is identified. Further calls are refused."),
    Setting(
      "CallsPerSecond", \.limits.callsPerSecond, .number(10...100_000), .onRestart,
      "Maximum calls per second of one caller, on average. GetManagedObjects counts as 16 calls, and each 4 KiB of an "
        + "answer as one more. A caller that was idle may make the calls of five seconds at once. Further calls are "
        + "refused."),
  ]
}
