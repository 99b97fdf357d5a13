import Config

/// Section `[Store]`: the location of persistent state.
public struct StoreSettings: SettingsSection {
  /// Nil: `$STATE_DIRECTORY`.
  public var directory: String?
  /// `MemoryMax=` of the unit.
  public var memoryLimit = 768 << 20

  public init() {}

  public static let section = "Store"
  public static let keys: [Setting<StoreSettings>] = [
    Setting(
      "Directory", \.directory, .optional(.path()), .onRestart,
      "The directory of the encrypted state that must survive a restart. Empty: the state directory that systemd "
        + "creates for the service; if there is none, state is stored in memory only."),
    Setting(
      "MemoryLimit", \.memoryLimit, .size((64 << 20)...(64 << 30)), .onReload,
      "The memory of the service: the value of MemoryMax= of its unit. Change both together. --check-config rejects "
        + "settings that permit more than three quarters of it."),
  ]
}
