/// A key whose value differs between two configurations.
public struct SettingChange: Sendable, Equatable {
  /// When the service takes up a changed value.
  public enum Moment: Sendable, Equatable {
    /// When the service is told to read its configuration again.
    case onReload
    /// When the service starts.
    case onRestart
  }

  /// Section and key: `Radio.Adapter`.
  public let name: String
  public let old: String
  public let new: String
  /// Whether the service goes on with the old value until it is restarted.
  public let needsRestart: Bool
}
