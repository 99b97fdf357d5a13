/// A key whose value differs between two configurations.
public struct SettingChange: Sendable, Equatable {
  /// When a changed value takes effect.
  public enum Moment: Sendable, Equatable {
    /// When the service reloads its configuration.
    case onReload
    /// When the service is restarted.
    case onRestart
  }

  /// Section and key: `Radio.Adapter`.
  public let name: String
  public let old: String
  public let new: String
  /// Whether the service uses the old value until it is restarted.
  public let needsRestart: Bool

  /// A sentence about a reload: the keys with new values in force, and the keys that need a restart.
  public static func report(_ changes: [SettingChange]) -> String {
    func names(_ needRestart: Bool) -> String {
      changes.filter { $0.needsRestart == needRestart }.map(\.name).joined(separator: ", ")
    }
    let (takenUp, waiting) = (names(false), names(true))
    guard !changes.isEmpty else { return "No setting changed." }
    return [
      takenUp.isEmpty ? "" : "In force now: \(takenUp).", waiting.isEmpty ? "" : "Needs a restart: \(waiting).",
    ]
    .filter { !$0.isEmpty }.joined(separator: " ")
  }
}
