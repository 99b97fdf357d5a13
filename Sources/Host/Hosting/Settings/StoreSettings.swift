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
      "Where services keep, encrypted, what must survive a restart. Empty: the directory that systemd makes for the "
        + "service, and memory alone where there is none."),
    Setting(
      "MemoryLimit", \.memoryLimit, .size((64 << 20)...(64 << 30)), .onReload,
      "How much memory the service has: MemoryMax= of its unit. Whoever raises one raises the other. earshotd --check-config "
        + "refuses settings that permit more than three quarters of it."),
  ]
}
