import CommandLine
import Config
import DBus
import Glibc
import Loop
import Tool

/// `earshot report`: writes the facts that a maintainer needs to find a fault, to standard output or a file.
@LoopActor
struct ReportCommand {
  private static let fileLimit = 1 << 20
  /// The last entries of a daemon's journal. Their texts are not read, because texts may have names and addresses.
  private static let journal = ["-n", "300", "-o", "json", "--output-fields=MESSAGE_ID,PRIORITY,EARSHOT_ERROR"]
  private static let journalLimit = 1 << 20
  private static let journalPatience = Duration.seconds(20)
  private static let resultLimit: UInt32 = 1000

  private let client: Client
  private let line: ParsedCommand
  private let version: String
  /// Names of the messages of `earshotd`, by message ID.
  private let messages: [String: String]
  /// The default settings.
  private let configuration: Configuration
  private let clock = SystemWallClock()

  init(
    _ client: Client, _ line: ParsedCommand, version: String, messages: [String: String], configuration: Configuration
  ) {
    self.client = client
    self.line = line
    self.version = version
    self.messages = messages
    self.configuration = configuration
  }

  func run() async throws(Failure) -> ExitCode {
    var place: FilePlace?
    if let path = line.value("output") { place = try FilePlace(path) }
    var report = Report(facts: await MachineProbe(client).facts())
    report.version = version
    report.system = Self.systemName()
    report.machine = Self.machineName()
    let loaded = configuration.load(from: .standard)
    report.settings = Report.settings(
      configuration.changes(to: loaded.configuration), complaints: loaded.complaints.count)
    report.journals = readJournals(of: Report.daemons(report.facts.units))
    var names = [report.facts.user] + Self.machineNames()
    if report.facts.service != nil { names += await readService(&report) }
    let text = report.text(Redaction(names: names))
    guard let place else {
      Output.write(text)
      return .ok
    }
    let file = try place.keep(Array(text.utf8), as: "earshot-report")
    Output.line("Wrote the report to \(file). Read it before you send it.")
    return .ok
  }

  // MARK: The service

  /// Reads counters and results.
  ///
  /// - Returns: the names that the service shows to people.
  private func readService(_ report: inout Report) async -> [String] {
    guard let objects = try? await client.objects() else { return [] }
    var names: [String] = []
    for interfaces in objects.values {
      for (interface, properties) in interfaces {
        let counters = (properties["Counters"]?.asDictionary ?? [:]).compactMapValues(\.asInteger)
        if !counters.isEmpty { report.counters[interface] = counters }
        names += ["Name", "Nickname", "Issuer", "PeerId"].compactMap { properties[$0]?.asString }
      }
    }
    report.services = objects[Client.manager.string]?[Client.managerInterface]?["Services"]?.asStrings ?? []
    let page = try? await client.call(
      "/org/earshot/verifier", "org.earshot.Verifier1", "ListHistory", [.uint64(0), .uint32(Self.resultLimit)])
    for value in page?.first?.asArray ?? [] {
      guard let parts = value.asArray, parts.count == 7 else { continue }
      let key = [parts[4].asString ?? "", parts[5].asString ?? ""].filter { !$0.isEmpty }.joined(separator: " ")
      report.results[key, default: 0] += 1
    }
    return names
  }

  // MARK: The machine

  /// The host name, with and without its domain, and the user that sudo runs the tool for.
  private static func machineNames() -> [String] {
    var bytes = [CChar](repeating: 0, count: 256)
    var names = getenv("SUDO_USER").map { [String(cString: $0)] } ?? []
    guard gethostname(&bytes, bytes.count - 1) == 0 else { return names }
    let host = String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    names += [host, String(host.prefix { $0 != "." })]
    return names
  }

  private static func systemName() -> String {
    let key = "PRETTY_NAME="
    let line = text(at: "/etc/os-release")?.split(whereSeparator: \.isNewline).first { $0.hasPrefix(key) }
    return line.map { $0.dropFirst(key.count).filter { $0 != "\"" } } ?? "unknown"
  }

  private static func machineName() -> String {
    var name = utsname()
    guard uname(&name) == 0 else { return "unknown" }
    return withUnsafeBytes(of: &name.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  }

  /// The text of a file; nil if it cannot be read, or is too large.
  private static func text(at path: String) -> String? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0, let bytes = try? FileOutput.readToEnd(FileDescriptor(owning: file), path), bytes.count < fileLimit
    else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Reads the journals of the daemons. After the first that cannot be read no further one is tried: each attempt may
  /// take as long as `journalPatience`.
  private func readJournals(of daemons: [String]) -> [Report.DaemonJournal] {
    var isReadable = true
    return daemons.map { daemon in
      let entries = isReadable ? readJournal(of: daemon) : nil
      isReadable = entries != nil
      return Report.DaemonJournal(daemon: daemon, entries: entries)
    }
  }

  private func readJournal(of daemon: String) -> [Report.JournalEntry]? {
    let output = ProgramRun.output(
      of: "journalctl", ["-u", daemon] + Self.journal, upTo: Self.journalLimit, within: Self.journalPatience)
    guard let output else { return nil }
    var entries: [Report.JournalEntry] = []
    for line in output.split(separator: UInt8(ascii: "\n")) {
      if let value = try? JSONReader.read(Array(line)), let entry = entry(value) { entries.append(entry) }
    }
    return entries
  }

  private func entry(_ value: JSONValue) -> Report.JournalEntry? {
    guard let time = value["__REALTIME_TIMESTAMP"]?.asString.flatMap(Int64.init) else { return nil }
    let id = value["MESSAGE_ID"]?.asString
    return Report.JournalEntry(
      age: max(0, clock.seconds - time / 1_000_000), priority: value["PRIORITY"]?.asString ?? "",
      message: id.map { messages[$0] ?? DaemonMessages.names[$0] ?? "unknown message" } ?? "message without ID",
      error: value["EARSHOT_ERROR"]?.asString ?? "")
  }
}
