/// One key of the configuration file, described once: from this come parsing, complaints, the comparison of two
/// configurations and the commented default file. The default is what the settings hold when they are made.
public struct Setting<Root: Settings>: Sendable {
  /// When a changed value is taken up.
  public enum Change: Sendable, Equatable {
    /// When the service is told to read its configuration again.
    case onReload
    /// When the service starts.
    case onRestart
  }

  public let section: String
  public let key: String
  /// What the key means, in whole sentences.
  public let documentation: String
  /// What its values look like, completes "Takes …".
  public let form: String
  public let change: Change

  /// Sets the value in `settings`; an empty text sets the default.
  let assign: @Sendable (_ text: String, _ settings: inout Root) -> BadValue?
  /// The value in `settings` as it is written in the file.
  let show: @Sendable (_ settings: Root) -> String

  init<Value>(
    _ section: String, _ key: String, _ path: any WritableKeyPath<Root, Value> & Sendable, _ kind: ValueKind<Value>,
    _ change: Change, _ documentation: String
  ) {
    self.section = section
    self.key = key
    self.documentation = documentation
    self.change = change
    form = kind.form
    assign = { text, settings in
      if text.isEmpty {
        settings[keyPath: path] = Root()[keyPath: path]
        return nil
      }
      switch kind.parse(text) {
      case .success(let value):
        settings[keyPath: path] = value
        return nil
      case .failure(let reason):
        return reason
      }
    }
    show = { settings in kind.show(settings[keyPath: path]) }
  }
}
