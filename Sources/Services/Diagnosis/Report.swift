import BlueZ
import Common
import Config
import HCI

/// The text of `earshot report`: facts for a maintainer, without secrets, names or addresses.
struct Report {
  /// An entry of a daemon's journal, without its text.
  struct JournalEntry: Sendable, Equatable {
    /// Age of the entry: seconds from the entry to the report.
    let age: Int64
    /// The journal's priority: 3 error, 4 warning, 5 notice.
    let priority: String
    /// The name of the message.
    let message: String
    /// The stable code of the error; empty if there is none.
    let error: String
  }

  /// The journal of one daemon.
  struct DaemonJournal: Sendable, Equatable {
    /// The name of the unit without its suffix: `earshotd`.
    let daemon: String
    /// The last entries, oldest first; nil if the journal cannot be read.
    let entries: [JournalEntry]?
  }

  var version = ""
  /// The name of the operating system: `PRETTY_NAME` of os-release(5).
  var system = ""
  var machine = ""
  var facts: MachineFacts
  /// Counters that are not 0, by interface and name.
  var counters: [String: [String: Int]] = [:]
  /// The enabled services.
  var services: [String] = []
  /// Number of stored results for each result and reason.
  var results: [String: Int] = [:]
  /// The settings that differ from their defaults.
  var settings: [String] = []
  /// The journals of `earshotd` and of the other daemons of this machine.
  var journals: [DaemonJournal] = []

  func text(_ redaction: Redaction) -> String {
    let sections = [
      section("Examination", Examination.findings(facts).map(line)),
      section("Services", services.sorted()), section("Settings that differ from their defaults", settings),
      section("Counters that are not 0", counterLines),
      section("Results of transfers", results.sorted { $0.key < $1.key }.map { "\($0.value)  \($0.key)" }),
    ]
    let all: [[String]] = sections + journals.map { section($0) }
    let head =
      "Report of earshot. It has no names, addresses, keys, messages or credentials. Read it before you send it."
    // The versions are left as they are: the name of the system is often the name of the machine, too.
    let lines = [head, ""] + section("Versions", versions) + all.joined().map(redaction.clean)
    return lines.map { PrintableText.clean($0, limit: 2000) + "\n" }.joined()
  }

  private static let noJournal = "not readable within 20 s: the group systemd-journal may read it"

  private func section(_ title: String, _ lines: [String]) -> [String] {
    ["## \(title)"] + (lines.isEmpty ? ["none"] : lines) + [""]
  }

  private func section(_ journal: DaemonJournal) -> [String] {
    section("Journal of \(journal.daemon)", journal.entries.map { $0.map(line) } ?? [Self.noJournal])
  }

  private var versions: [String] {
    [
      "earshotd \(facts.service?.version ?? "is not running")", "earshot \(version)",
      "BlueZ \(facts.blueZ.map(\.description) ?? "unknown")", "Linux \(facts.kernel.map(\.description) ?? "unknown")",
      "system \(system)", "machine \(machine)",
    ]
  }

  private func line(_ finding: Finding) -> String { "\(finding.level.rawValue)  \(finding.topic)  \(finding.sentence)" }

  private func line(_ entry: JournalEntry) -> String {
    "-\(entry.age) s  priority \(entry.priority)  \(entry.message)" + (entry.error.isEmpty ? "" : "  \(entry.error)")
  }

  private var counterLines: [String] {
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    counters.sorted { $0.key < $1.key }.flatMap { interface, counters -> [String] in
      counters.filter { $0.value > 0 }.sorted { $0.key < $1.key }.map { "\(interface) \($0.key) \($0.value)" }
    }
  }

  // MARK: Reading

  /// The daemons whose journals belong to the report: `earshotd`, and those of the others that are installed or active.
  ///
  /// - Parameter units: the units of this machine; nil if systemd does not report them, which selects all daemons.
  static func daemons(_ units: [MachineFacts.Unit]?) -> [String] {
    let others = Examination.optionalUnits.filter { name in
      units?.contains { $0.name == name && $0.isPresent } ?? true
    }
    return ["earshotd"] + others.map { String($0.dropLast(".service".count)) }
  }

  /// The settings that differ from their defaults. A value that may be any text, such as a name, a path or an address,
  /// is replaced by `…`. Entries that the service does not understand are counted only.
  ///
  /// - Parameter complaints: number of entries that the service does not understand.
  static func settings(_ changes: [SettingChange], complaints: Int) -> [String] {
    let lines = changes.map { "\($0.name) = \($0.isFree ? "…" : $0.new)" }
    return complaints == 0 ? lines : lines + ["invalid entries: \(complaints)"]
  }
}
