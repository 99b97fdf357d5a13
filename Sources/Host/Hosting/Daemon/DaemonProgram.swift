import CommandLine
import Config
import DBus
import Glibc
import Journal
import Loop

/// A daemon as a program: it parses its options, and either performs one task and exits, or runs until it is stopped.
public struct DaemonProgram: Sendable {
  /// Creates the daemon on the loop.
  ///
  /// - Parameters:
  ///   - configuration: the settings at the start.
  ///   - bus: the connection for the daemon's objects.
  ///   - address: the bus, for further connections.
  public typealias Maker =
    @LoopActor (_ configuration: Configuration, _ bus: BusConnection, _ address: BusAddress) -> any DaemonBody

  private let name: String
  private let summary: String
  private let tool: String
  private let busName: String
  private let version: String
  /// The sections of the configuration, with the default values.
  let defaults: Configuration
  private let files: ConfigurationFiles
  private let messages: [MessageID]
  private let check: @Sendable (LoadedConfiguration) -> LoadedConfiguration
  private let problems: @Sendable (Configuration) -> [String]
  private let interfaces: @LoopActor @Sendable () -> [Interface]
  private let prepare: @Sendable (Configuration) -> Maker

  /// - Parameters:
  ///   - name: the program's name, which is also its name in the journal.
  ///   - tool: completes "The command-line tool is …".
  ///   - defaults: the sections of the configuration.
  ///   - messages: all journal messages of the daemon.
  ///   - check: adds complaints about settings that contradict each other.
  ///   - problems: sentences about settings that do not fit this machine.
  ///   - interfaces: the D-Bus interfaces, each once.
  ///   - prepare: called before other threads start; its result is called on the loop.
  public init(
    _ name: String, _ summary: String, tool: String, busName: String, version: String, defaults: Configuration,
    files: ConfigurationFiles, messages: [MessageID],
    check: @escaping @Sendable (LoadedConfiguration) -> LoadedConfiguration = { $0 },
    problems: @escaping @Sendable (Configuration) -> [String] = { _ in [] },
    interfaces: @escaping @LoopActor @Sendable () -> [Interface],
    prepare: @escaping @Sendable (Configuration) -> Maker
  ) {
    (self.name, self.summary, self.tool, self.busName, self.version) = (name, summary, tool, busName, version)
    (self.defaults, self.files, self.messages) = (defaults, files, messages)
    (self.check, self.problems, self.interfaces, self.prepare) = (check, problems, interfaces, prepare)
  }

  /// Runs the program with its command line, and exits.
  public func main() -> Never {
    let code = run(Array(Swift.CommandLine.arguments.dropFirst()))
    // The disk's thread may still be running, because the exit does not wait for a slow disk. `exit` would free
    // libcrypto's tables while it uses them.
    fflush(nil)
    _exit(code.rawValue)
  }

  private func run(_ words: [String]) -> ExitCode {
    let options: ParsedCommand
    do throws(UsageError) {
      options = try command.parse(words)
    } catch {
      Self.complain("\(error.sentence)\n\(error.hint)")
      return .usage
    }
    if options.wantsHelp {
      print(options.help)
      return .ok
    }
    if options.flag("version") {
      print("\(name) \(version)")
      return .ok
    }
    if options.flag("default-config") {
      print(defaults.defaultFile, terminator: "")
      return .ok
    }
    if let file = options.value("write-catalog") {
      return OutputFile.write(MessageCatalog.text(messages), to: file) ? .ok : .failed
    }
    let files = options.value("config").map { ConfigurationFiles(only: $0) } ?? files
    if options.flag("check-config") { return checkConfiguration(files) }
    return serve(files, options)
  }

  private func checkConfiguration(_ files: ConfigurationFiles) -> ExitCode {
    let loaded = check(defaults.load(from: files))
    let problems = problems(loaded.configuration)
    for sentence in loaded.complaints.map(\.description) + problems { Self.complain(sentence) }
    let isInOrder = loaded.complaints.isEmpty && problems.isEmpty
    if isInOrder {
      let read =
        loaded.files.isEmpty
        ? "There is no configuration file; the defaults apply." : loaded.files.joined(separator: "\n")
      print("The configuration is valid.\n\(read)")
    }
    return isInOrder ? .ok : .failed
  }

  private func serve(_ files: ConfigurationFiles, _ options: ParsedCommand) -> ExitCode {
    signal(SIGPIPE, SIG_IGN)
    let loaded = check(defaults.load(from: files))
    Log.configure(destination: .automatic(identifier: name), level: loaded.configuration[LogSettings.self].level)
    for complaint in loaded.complaints {
      Log.shared.warning("\(complaint.description)", id: .configurationProblem)
    }
    let make = prepare(loaded.configuration)
    let directory = options.value("write-interfaces")
    let address = BusAddress(words: options.value("bus") ?? "system")
    let busName = options.value("bus-name") ?? busName
    let load: @Sendable (Configuration) -> LoadedConfiguration = { [defaults, check] inForce in
      check(defaults.load(from: files, inForce: inForce))
    }
    let outcome = Outcome()
    EventLoop.shared.soon {
      if let directory {
        outcome.code = writeInterfaces(to: directory) ? .ok : .failed
        EventLoop.shared.stop()
      } else {
        // This precedes the first key in memory.
        DaemonFrame.guardMemory()
        let bus = BusConnection(address: address, limits: loaded.configuration[BusSettings.self].limits)
        let frame = DaemonFrame(loaded.configuration, load: load, bus: bus, name: busName, version: version)
        outcome.frame = frame
        frame.run(make(loaded.configuration, bus, address)) { outcome.code = $0 }
      }
    }
    guard EventLoop.shared.run() else {
      Log.shared.error("The event loop failed and cannot continue")
      return .failed
    }
    return outcome.code
  }

  /// Writes the D-Bus interfaces as files for `/usr/share/dbus-1/interfaces`.
  ///
  /// - Returns: whether all could be written; errors are reported on standard error.
  @LoopActor
  private func writeInterfaces(to directory: String) -> Bool {
    let results = interfaces().map { interface in
      OutputFile.write(InterfaceXML.document([interface]), to: "\(directory)/\(interface.name).xml")
    }
    return !results.contains(false)
  }

  /// Writes an error to standard error.
  static func complain(_ text: String) {
    let bytes = Array("\(text)\n".utf8)
    _ = write(STDERR_FILENO, bytes, bytes.count)
  }

  /// The options of this program.
  var command: Command { Self.command(name, summary, tool: tool, busName: busName) }

  /// The options of a daemon, for its help text and its manual page.
  static func command(_ name: String, _ summary: String, tool: String, busName: String) -> Command {
    Command(
      name, summary, details: ["Run by systemd as \(name).service. The command-line tool is \(tool)."],
      options: [
        Option("config", value: .file("FILE"), "Read the configuration from this file only."),
        Option("bus", value: .text("ADDRESS"), "system (the default), session, or a D-Bus address."),
        Option("bus-name", value: .text("NAME"), "The name to own on the bus (\(busName))."),
        Option("check-config", "Report problems of the configuration and exit."),
        Option("default-config", "Print the default configuration, which explains each key, and exit."),
        Option("write-interfaces", value: .file("DIR"), "Write the D-Bus interfaces as XML files and exit."),
        Option("write-catalog", value: .file("FILE"), "Write the catalog of journal messages and exit."),
        Option("version", "Print the version and exit."),
      ])
  }
}

/// The state and the result of the run. Only the loop's thread accesses it, before and during the run; `main` reads it
/// after the end.
private final class Outcome: @unchecked Sendable {
  var code = ExitCode.ok
  var frame: DaemonFrame?
}

/// Files that the program writes for the installation.
enum OutputFile {
  /// Writes a file that all users can read.
  ///
  /// - Returns: whether it was written; otherwise the reason is reported on standard error.
  static func write(_ text: String, to path: String) -> Bool {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    let isWritten = descriptor >= 0 && write(Array(text.utf8), to: descriptor)
    let reason = errno
    if descriptor >= 0 { close(descriptor) }
    if !isWritten { DaemonProgram.complain("\(path) cannot be written: \(String(cString: strerror(reason)))") }
    return isWritten
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}
