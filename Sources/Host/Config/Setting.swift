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
