import Config

/// The common sections; those of the services follow.
public enum HouseSettings {
  public static let sections: [any SettingsSection.Type] = [
    RadioSettings.self, StoreSettings.self, BusSettings.self, LogSettings.self,
  ]
}
