import Common

/// The typed content of a configuration, together with the table that says how its file is written.
public protocol Settings: Sendable, Equatable {
  /// The defaults.
  init()

  /// Completes "Settings of …" at the top of the default file.
  static var subject: String { get }
  /// All keys, those of a section together.
  static var table: [Setting<Self>] { get }
}

/// Settings, where they came from and what was wrong there.
public struct LoadedSettings<Root: Settings>: Sendable {
  public let settings: Root
  /// Everything that could not be used; empty means that the configuration is in order.
  public let complaints: [Complaint]
  /// The files that were read, in the order in which they counted.
  public let files: [String]
}

/// A key whose value is not what it was.
public struct SettingChange: Sendable, Equatable {
  /// `Verifier.Name`
  public let name: String
  public let old: String
  public let new: String
  /// True if the service goes on with the old value until it is restarted.
  public let needsRestart: Bool
}

extension Settings {
  /// Reads the configuration. It never fails: what cannot be used is left at what it was, and complained about.
  public static func load(from files: ConfigurationFiles) -> LoadedSettings<Self> {
    let results = files.read()
    var settings = Self()
    var complaints: [Complaint] = []
    for result in results {
      if let failure = result.failure {
        complaints.append(Complaint(file: result.file, line: nil, sentence: "This file \(failure.sentence)."))
      } else if let content = result.content {
        let found = content.complaints + settings.apply(content)
        complaints += found.sorted { ($0.line ?? 0) < ($1.line ?? 0) }
      }
    }
    return LoadedSettings(
      settings: settings, complaints: complaints, files: results.filter { $0.content != nil }.map(\.file))
  }

  /// The keys whose values differ, in the order of the table.
  public func changes(to new: Self) -> [SettingChange] {
    Self.table.compactMap { setting in
      let (before, after) = (setting.show(self), setting.show(new))
      guard before != after else { return nil }
      return SettingChange(
        name: "\(setting.section).\(setting.key)", old: before, new: after,
        needsRestart: setting.change == .onRestart)
    }
  }

  /// These settings with those that need a restart taken from `old`: what is in force after a reload.
  public func keepingRestartSettings(of old: Self) -> Self {
    var result = self
    for setting in Self.table where setting.change == .onRestart {
      // What `show` wrote `assign` can read; a table test makes sure of it.
      _ = setting.assign(setting.show(old), &result)
    }
    return result
  }

  /// Takes over what the file says, and returns what cannot be used.
  mutating func apply(_ content: INI) -> [Complaint] {
    var complaints: [Complaint] = []
    let sections = Self.table.map(\.section)
    for header in content.headers where !sections.contains(header.section) && !header.section.hasPrefix("X-") {
      complaints.append(
        Complaint(
          file: header.file, line: header.line,
          sentence: "There is no section [\(header.section)]; it is ignored."
            + Self.guess(header.section, among: sections, like: { "[\($0)]" })))
    }
    for entry in content.entries where sections.contains(entry.section) {
      let sentence: String
      if let setting = Self.table.first(where: { $0.section == entry.section && $0.key == entry.key }) {
        guard let reason = setting.assign(entry.value, &self) else { continue }
        sentence = Self.sentence(for: reason, of: setting, value: entry.value) + " It stays \(quoted(setting))."
      } else if entry.key.hasPrefix("X-") {
        continue
      } else {
        let keys = Self.table.filter { $0.section == entry.section }.map(\.key)
        sentence =
          "Section [\(entry.section)] has no key \(entry.key); it is ignored."
          + Self.guess(entry.key, among: keys, like: { $0 })
      }
      complaints.append(Complaint(file: entry.file, line: entry.line, sentence: sentence))
    }
    return complaints
  }

  private func quoted(_ setting: Setting<Self>) -> String {
    let text = setting.show(self)
    return text.isEmpty ? "empty" : text
  }

  private static func sentence(for reason: BadValue, of setting: Setting<Self>, value: String) -> String {
    switch reason {
    case .form: "\(setting.key)=\(value) is not \(setting.form)."
    case .because(let objection): "\(setting.key)=\(value) cannot be: \(objection)."
    }
  }

  private static func guess(_ word: String, among candidates: [String], like show: (String) -> String) -> String {
    Spelling.nearest(to: word, among: candidates).map { " Did you mean \(show($0))?" } ?? ""
  }
}
