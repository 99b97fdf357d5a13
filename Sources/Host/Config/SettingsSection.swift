/// The settings of one section of the configuration file, together with the table that says how they are written there.
///
/// The default of a setting is the value that it has in new settings, and stands nowhere else.
public protocol SettingsSection: Sendable {
  /// Makes the defaults.
  init()

  /// The section's name, without its brackets: `Radio`.
  static var section: String { get }
  /// The section's keys, in the order of the default file.
  static var keys: [Setting<Self>] { get }

  /// The bytes of memory that the service may take for what these settings permit, at the most.
  var memory: Int { get }
}

extension SettingsSection {
  public var memory: Int { 0 }
}
