/// The settings of one section of the configuration file, with the table of their keys.
///
/// The default of a setting is its value after `init()`, and is not repeated elsewhere.
public protocol SettingsSection: Sendable {
  /// Creates the default settings.
  init()

  /// The section's name, without brackets: `Radio`.
  static var section: String { get }
  /// The section's keys, in the order of the default file.
  static var keys: [Setting<Self>] { get }

  /// Maximum bytes of memory that the service uses for everything that these settings permit.
  var memory: Int { get }
}

extension SettingsSection {
  public var memory: Int { 0 }
}
