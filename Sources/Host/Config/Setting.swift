/// One key of a section, described once: from this come parsing, complaints, the comparison of two configurations and the
/// commented default file.
public struct Setting<Section: SettingsSection>: Sendable {
  public let key: String
  /// What the key means, in whole sentences.
  public let documentation: String
  /// What its values look like, completes "Takes …".
  public let form: String
  public let change: SettingChange.Moment
  /// The value by which the service erases the least, as it is written in the file; nil where it erases nothing by the setting.
  let erasesLeast: String?

  /// Sets the value in `section`; an empty text sets the default.
  let assign: @Sendable (_ text: String, _ section: inout Section) -> BadValue?
  /// The value in `section` as it is written in the file.
  let show: @Sendable (_ section: Section) -> String

  /// - Parameters:
  ///   - path: where the value stands in the section.
  ///   - kind: how the value is written.
  ///   - change: when a changed value is taken up.
  ///   - documentation: whole sentences for the person who edits the file.
  ///   - erasesLeast: of a setting by which the service erases what it keeps, the value that erases the least: a service that starts goes
  ///   by it while the file does not tell the value.
  public init<Value>(
    _ key: String, _ path: any WritableKeyPath<Section, Value> & Sendable, _ kind: ValueKind<Value>,
    _ change: SettingChange.Moment, _ documentation: String, erasesLeast: Value? = nil
  ) {
    self.key = key
    self.documentation = documentation
    self.change = change
    self.erasesLeast = erasesLeast.map(kind.show)
    form = kind.form
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
