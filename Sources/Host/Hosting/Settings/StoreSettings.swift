import Config

/// Section `[Store]`: where services keep what must survive a restart.
public struct StoreSettings: SettingsSection {
  /// Nil: `$STATE_DIRECTORY`.
  public var directory: String?

  public init() {}

  public static let section = "Store"
  public static let keys: [Setting<StoreSettings>] = [
    Setting(
      "Directory", \.directory, .optional(.path()), .onRestart,
      "Where services keep, encrypted, what must survive a restart. Empty: the directory that systemd makes for the "
        + "service, and memory alone where there is none.")
  ]
}
