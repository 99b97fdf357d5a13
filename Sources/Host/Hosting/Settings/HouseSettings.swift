import Config

/// The sections of the house itself; those of the services follow them.
public enum HouseSettings {
  public static let sections: [any SettingsSection.Type] = [
    RadioSettings.self, StoreSettings.self, BusSettings.self, LogSettings.self,
  ]
}
