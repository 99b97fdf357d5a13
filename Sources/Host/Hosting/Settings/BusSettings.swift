import Config
import DBus

/// Section `[Bus]`: what callers on the message bus may ask for.
public struct BusSettings: SettingsSection {
  public var limits = BusLimits()

  public init() {}

  public static let section = "Bus"
  public static let keys: [Setting<BusSettings>] = [
    Setting(
      "WaitingCallers", \.limits.waitingCallers, .number(1...4096), .onRestart,
      "Of how many callers it may be asked at one time who they are. The calls of one more are refused."),
    Setting(
      "WaitingCalls", \.limits.waitingCalls, .number(1...4096), .onRestart,
      "How many calls of one caller wait until that is known. One more is refused."),
  ]
}
