import Common

/// The settings of all sections, common ones and those of each service.
///
/// A configuration stores the table of each section, but not the meaning of its keys. It is created from a list of
/// section types.
public struct Configuration: Sendable {
  /// The subject of the settings, which completes "Settings of …" at the top of the default file.
  let subject: String
  /// The file's name; `program` is the name of the program that reads the file.
  let file: String
  let program: String
  /// All keys, grouped by section.
  let table: [ConfigurationKey]
  private var sections: [ObjectIdentifier: any SettingsSection] = [:]

  /// Creates the default configuration.
  ///
  /// - Parameters:
  ///   - subject: completes "Settings of …" at the top of the default file.
  ///   - file: the file's name.
  ///   - program: the program that reads the file.
  ///   - sections: in the order of the default file; their names must be unique.
  public init(
    of subject: String, file: String = "earshot.conf", program: String = "earshotd",
    _ sections: [any SettingsSection.Type]
  ) {
    (self.subject, self.file, self.program) = (subject, file, program)
    table = sections.flatMap { ConfigurationKey.all(of: $0) }
    for section in sections { self.sections[ObjectIdentifier(section)] = section.init() }
  }

  /// The settings of one section; its defaults if the configuration does not have the section.
  public subscript<Section: SettingsSection>(_ type: Section.Type) -> Section {
    get { sections[ObjectIdentifier(type)] as? Section ?? Section() }
    set { sections[ObjectIdentifier(type)] = newValue }
  }

  /// Maximum bytes of memory that the service uses for everything that the settings permit.
  public var memory: Int { sections.values.reduce(0) { $0 + $1.memory } }

  /// Reads the files on top of these settings. The function never fails: an invalid setting has no effect on the value,
  /// and results in a complaint.
  ///
  /// A starting service erases nothing because of an invalid value or an unreadable file: a setting that controls
  /// erasure then has the value that erases the least.
  ///
  /// - Parameter inForce: the present settings of a running service that reads the files again. An invalid setting does
  ///   not change that value. If a file cannot be read, no setting changes, because the file may set any of them.
  public func load(from files: ConfigurationFiles, inForce: Configuration? = nil) -> LoadedConfiguration {
    let results = files.read()
    var configuration = self
    var complaints: [Complaint] = []
    for result in results {
      if let failure = result.failure {
        complaints.append(Complaint(file: result.file, line: nil, sentence: "This file \(failure.sentence)."))
      } else if let content = result.content {
        let found =
          content.complaints + configuration.apply(content, inForce: inForce)
          + configuration.repetitions(content)
        complaints += found.sorted { ($0.line ?? 0) < ($1.line ?? 0) }
      }
    }
    if let unread = results.first(where: { $0.failure != nil }) {
      var sentence: String? = "All settings keep their values until this file can be read."
      if let inForce { configuration = inForce } else { sentence = configuration.eraseLeast() }
      if let sentence { complaints.append(Complaint(file: unread.file, line: nil, sentence: sentence)) }
    }
    return LoadedConfiguration(
      configuration: configuration, complaints: complaints, files: results.filter { $0.content != nil }.map(\.file))
  }

  /// The keys whose values differ, in the order of the table.
  public func changes(to new: Configuration) -> [SettingChange] {
    table.compactMap { key in
      let (before, after) = (key.show(self), key.show(new))
      guard before != after else { return nil }
      return SettingChange(
        name: key.name, old: before, new: after, needsRestart: key.change == .onRestart, isFree: key.isFree)
    }
  }

  /// These settings, with `old` values for the ones that need a restart: the settings in force after a reload.
  public func keepingRestartSettings(of old: Configuration) -> Configuration {
    var result = self
    for key in table where key.change == .onRestart {
      // `assign` can read the output of `show`; a table test verifies it.
      _ = key.assign(key.show(old), &result)
    }
    return result
  }

  /// Returns a complaint for each key that one file sets more than once. A second file may override a key on purpose.
  func repetitions(_ content: INI) -> [Complaint] {
    table.compactMap { key in
      let entries = content.entries.filter { $0.section == key.section && $0.key == key.key }
      guard let last = entries.last, entries.count > 1 else { return nil }
      let lines = entries.dropLast().map { String($0.line) }.joined(separator: ", ") + " and \(last.line)"
      return Complaint(
        file: last.file, line: last.line,
        sentence:
          "\(key.key)= of section [\(key.section)] is set more than once, on lines \(lines). The last valid value "
          + "applies: \(quoted(key)).")
    }
  }

  /// Applies the entries of a file to these settings, and returns complaints about invalid entries.
  mutating func apply(_ content: INI, inForce: Configuration? = nil) -> [Complaint] {
    var complaints: [Complaint] = []
    let sections = table.map(\.section)
    for header in content.headers where !sections.contains(header.section) && !header.section.hasPrefix("X-") {
      complaints.append(
        Complaint(
          file: header.file, line: header.line,
          sentence: "There is no section [\(header.section)]; it is ignored."
            + Self.guess(header.section, among: sections, like: { "[\($0)]" })))
    }
    for entry in content.entries where sections.contains(entry.section) {
      let sentence: String
      if let key = table.first(where: { $0.section == entry.section && $0.key == entry.key }) {
        let unclosed: BadValue? =
          entry.isUnclosed
          ? .because("a value that begins with a quotation mark must end with one, and contain no other") : nil
        guard let reason = unclosed ?? key.assign(entry.value, &self) else { continue }
        sentence = Self.sentence(for: reason, of: key, value: entry.value) + " \(refuse(key, inForce: inForce))"
      } else if let key = table.first(where: { $0.section == entry.section && $0.earlierNames.contains(entry.key) }) {
        sentence =
          "\(entry.key)= is ignored: the key is now \(key.key)=."
          + (content.entries.contains { $0.section == key.section && $0.key == key.key }
            ? "" : " \(refuse(key, inForce: inForce))")
      } else if entry.key.hasPrefix("X-") {
        continue
      } else {
        let keys = table.filter { $0.section == entry.section }.map(\.key)
        sentence =
          "Section [\(entry.section)] has no key \(entry.key); it is ignored."
          + Self.guess(entry.key, among: keys, like: { $0 })
      }
      complaints.append(Complaint(file: entry.file, line: entry.line, sentence: sentence))
    }
    return complaints
  }

  /// Sets a key that has no valid value to the value in force, or to the value that erases the least.
  ///
  /// - Returns: a sentence about its value.
  private mutating func refuse(_ key: ConfigurationKey, inForce: Configuration?) -> String {
    if let inForce {
      _ = key.assign(key.show(inForce), &self)
    } else if let value = key.erasesLeast {
      _ = key.assign(value, &self)
      return "Its value is \(quoted(key)) until this is corrected, so that nothing is erased by mistake."
    }
    return "Its value stays \(quoted(key))."
  }

  /// Sets each setting that controls erasure to the value that erases the least.
  ///
  /// - Returns: a sentence about it; nil if there is no such setting.
  private mutating func eraseLeast() -> String? {
    var values: [String] = []
    for key in table {
      guard let value = key.erasesLeast else { continue }
      _ = key.assign(value, &self)
      values.append("\(key.name)=\(value)")
    }
    guard !values.isEmpty else { return nil }
    return "In force until this file can be read, so that nothing is erased by mistake: "
      + "\(values.joined(separator: ", "))."
  }

  private func quoted(_ key: ConfigurationKey) -> String {
    let text = key.show(self)
    return text.isEmpty ? "empty" : text
  }

  private static func sentence(for reason: BadValue, of key: ConfigurationKey, value: String) -> String {
    switch reason {
    case .form: "\(key.key)=\(value) is not \(key.form)."
    case .because(let objection): "\(key.key)=\(value) is invalid: \(objection)."
    }
  }

  private static func guess(_ word: String, among candidates: [String], like show: (String) -> String) -> String {
    Spelling.nearest(to: word, among: candidates).map { " Did you mean \(show($0))?" } ?? ""
  }
}

extension Configuration {
  /// The installed file: every key with its documentation, commented out with its default. At most 80 columns.
  public var defaultFile: String {
    var lines = Self.wrapped(
      "Settings of \(subject). Each key is shown with its default. To change a key, remove its #, or set it in a file "
        + "in \(file).d/ beside this file; package upgrades do not change that folder. An empty value means the "
        + "default. Quotation marks around a whole value are removed.")
    lines.append("#")
    lines += Self.wrapped(
      "Times have the units ms, s, min and h; sizes have the units K, M and G. `systemctl reload` applies changes, "
        + "except to keys that need a restart.")
    lines += ["#", "# Check with: \(program) --check-config"]
    var section = ""
    for key in table {
      if key.section != section {
        section = key.section
        lines += ["", "[\(section)]"]
      }
      lines.append("")
      lines += Self.wrapped(key.documentation)
      lines += Self.wrapped("Takes \(key.form)." + (key.change == .onRestart ? " Needs a restart." : ""))
      lines.append("#\(key.key)=\(key.fallback)")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func wrapped(_ text: String) -> [String] {
    var lines: [String] = []
    var line = "#"
    for word in text.split(separator: " ") {
      if line.count + 1 + word.count > 80 {
        lines.append(line)
        line = "#"
      }
      line += " \(word)"
    }
    return lines + [line]
  }
}

/// A configuration, its files, and the complaints about them.
public struct LoadedConfiguration: Sendable {
  public let configuration: Configuration
  /// All complaints; empty if the configuration is valid.
  public let complaints: [Complaint]
  /// The files that were read, in the order of increasing precedence.
  public let files: [String]

  /// A copy with one more complaint.
  public func adding(_ complaint: Complaint) -> LoadedConfiguration {
    LoadedConfiguration(configuration: configuration, complaints: complaints + [complaint], files: files)
  }
}

/// An invalid entry in the configuration, with its position. No error in a configuration is fatal: an invalid entry is
/// ignored, and the complaint states the value in force.
public struct Complaint: Sendable, Equatable, CustomStringConvertible {
  /// The path of the file.
  public let file: String
  /// The line number, from 1; nil if the complaint concerns the whole file.
  public let line: Int?
  /// The error, and the value in force.
  public let sentence: String

  public init(file: String, line: Int?, sentence: String) {
    self.file = file
    self.line = line
    self.sentence = sentence
  }

  /// Formats `/etc/earshot/earshot.conf:12: …`, like editors and compilers.
  public var description: String {
    line.map { "\(file):\($0): \(sentence)" } ?? "\(file): \(sentence)"
  }
}
