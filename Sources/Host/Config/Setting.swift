/// One key of a section. Parsing, complaints, the comparison of configurations and the commented default file use the
/// same description.
public struct Setting<Section: SettingsSection>: Sendable {
  public let key: String
  /// The documentation, in complete sentences.
  public let documentation: String
  /// The form of its values, which completes "Takes …".
  public let form: String
  public let change: SettingChange.Moment
  /// The value that erases the least, in the syntax of the file; nil if the setting does not control erasure.
  let erasesLeast: String?
  /// Whether a value may be any text, such as a name, a path or an address.
  let isFree: Bool

  /// Sets the value in `section`; an empty text sets the default.
  let assign: @Sendable (_ text: String, _ section: inout Section) -> BadValue?
  /// The value in `section` in the syntax of the file.
  let show: @Sendable (_ section: Section) -> String

  /// - Parameters:
  ///   - path: the property of the section that stores the value.
  ///   - kind: the syntax of the value.
  ///   - change: when a changed value takes effect.
  ///   - documentation: complete sentences for the person who edits the file.
  ///   - erasesLeast: for a setting that controls the erasure of stored data: the value that erases the least. A
  ///     starting service uses it while the file does not provide a valid value.
  public init<Value>(
    _ key: String, _ path: any WritableKeyPath<Section, Value> & Sendable, _ kind: ValueKind<Value>,
    _ change: SettingChange.Moment, _ documentation: String, erasesLeast: Value? = nil
  ) {
    self.key = key
    self.documentation = documentation
    self.change = change
    self.erasesLeast = erasesLeast.map(kind.show)
    form = kind.form
    isFree = kind.isFree
    assign = { text, section in
      if text.isEmpty {
        section[keyPath: path] = Section()[keyPath: path]
        return nil
      }
      switch kind.parse(text) {
      case .success(let value):
        section[keyPath: path] = value
        return nil
      case .failure(let reason):
        return reason
      }
    }
    show = { section in kind.show(section[keyPath: path]) }
  }
}

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
  /// The present names of renamed keys, by their earlier names.
  static var renamedKeys: [String: String] { get }

  /// Maximum bytes of memory that the service uses for everything that these settings permit.
  var memory: Int { get }
}

extension SettingsSection {
  public static var renamedKeys: [String: String] { [:] }

  public var memory: Int { 0 }
}

/// A key of any section of a configuration: a `Setting` with its section type erased.
struct ConfigurationKey: Sendable {
  let section: String
  let key: String
  /// Earlier names of the key, which are refused.
  let earlierNames: [String]
  let documentation: String
  /// The form of its values, which completes "Takes …".
  let form: String
  let change: SettingChange.Moment
  /// The value that erases the least; nil if the setting does not control erasure.
  let erasesLeast: String?
  /// Whether a value may be any text, such as a name, a path or an address.
  let isFree: Bool
  /// The default in the syntax of the file.
  let fallback: String

  /// Sets the value in `configuration`; an empty text sets the default.
  let assign: @Sendable (_ text: String, _ configuration: inout Configuration) -> BadValue?
  /// The value in `configuration` in the syntax of the file.
  let show: @Sendable (_ configuration: Configuration) -> String

  /// Section and key: `Radio.Adapter`.
  var name: String { "\(section).\(key)" }

  /// The keys of one section, in order.
  static func all<Section: SettingsSection>(of section: Section.Type) -> [ConfigurationKey] {
    Section.keys.map { ConfigurationKey($0) }
  }

  private init<Section>(_ setting: Setting<Section>) {
    section = Section.section
    key = setting.key
    earlierNames = Section.renamedKeys.filter { $0.value == setting.key }.map(\.key).sorted()
    documentation = setting.documentation
    form = setting.form
    change = setting.change
    erasesLeast = setting.erasesLeast
    isFree = setting.isFree
    fallback = setting.show(Section())
    assign = { text, configuration in setting.assign(text, &configuration[Section.self]) }
    show = { configuration in setting.show(configuration[Section.self]) }
  }
}

/// A key whose value differs between two configurations.
public struct SettingChange: Sendable, Equatable {
  /// When a changed value takes effect.
  public enum Moment: Sendable, Equatable {
    /// A changed value takes effect at the next reload of the configuration.
    case onReload
    /// A changed value takes effect at the next start of the service.
    case onRestart
  }

  /// Section and key: `Radio.Adapter`.
  public let name: String
  public let old: String
  public let new: String
  /// Whether the service uses the old value until it is restarted.
  public let needsRestart: Bool
  /// Whether the values may be any text, such as a name, a path or an address.
  public var isFree = false

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
