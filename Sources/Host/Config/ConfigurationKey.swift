/// A key of any section of a configuration: a `Setting` with its section type erased.
struct ConfigurationKey: Sendable {
  let section: String
  let key: String
  let documentation: String
  /// The form of its values, which completes "Takes …".
  let form: String
  let change: SettingChange.Moment
  /// The value that erases the least; nil if the setting does not control erasure.
  let erasesLeast: String?
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
    documentation = setting.documentation
    form = setting.form
    change = setting.change
    erasesLeast = setting.erasesLeast
    fallback = setting.show(Section())
    assign = { text, configuration in setting.assign(text, &configuration[Section.self]) }
    show = { configuration in setting.show(configuration[Section.self]) }
  }
}
