import BlueZ
import CommandLine
import Config
import DBus
import Glibc
import Hosting
import Journal
import Listing
import Loop

/// The service: parses its options, and either performs one task and exits, or runs until it is stopped.
@main
struct Earshotd {
  private static let list = ServiceList.all

  static func main() {
    let code = run(Array(Swift.CommandLine.arguments.dropFirst()))
    // The disk's thread may still be running, because the exit does not wait for a slow disk. `exit` would free
    // libcrypto's tables while it uses them.
    fflush(nil)
    _exit(code.rawValue)
  }

  private static func run(_ words: [String]) -> ExitCode {
    let options: ParsedCommand
    do throws(UsageError) {
      options = try command.parse(words)
    } catch {
      complain("\(error.sentence)\n\(error.hint)")
      return .usage
    }
    if options.wantsHelp {
      print(options.help)
      return .ok
    }
    if options.flag("version") {
      print("earshotd \(ManagerFace.version)")
      return .ok
    }
    if options.flag("default-config") {
      print(list.configuration.defaultFile, terminator: "")
      return .ok
    }
    if let file = options.value("write-catalog") {
      let text = MessageCatalog.text(list.messages)
      return OutputFile.write(text, to: file) ? .ok : .failed
    }
    let files = options.value("config").map { ConfigurationFiles(only: $0) } ?? .standard
    if options.flag("check-config") { return checkConfiguration(files) }
    return serve(files, options)
  }

  private static func checkConfiguration(_ files: ConfigurationFiles) -> ExitCode {
    let loaded = MemoryBudget.check(list.configuration.load(from: files))
    let problems = list.kinds.flatMap { $0.problems(with: loaded.configuration) }
    for sentence in loaded.complaints.map(\.description) + problems { complain(sentence) }
    let isInOrder = loaded.complaints.isEmpty && problems.isEmpty
    if isInOrder {
      let read =
        loaded.files.isEmpty
        ? "There is no configuration file; the defaults apply." : loaded.files.joined(separator: "\n")
      print("The configuration is valid.\n\(read)")
    }
    return isInOrder ? .ok : .failed
  }

  private static func serve(_ files: ConfigurationFiles, _ options: ParsedCommand) -> ExitCode {
    signal(SIGPIPE, SIG_IGN)
    let loaded = MemoryBudget.check(list.configuration.load(from: files))
    Log.configure(
      destination: .automatic(identifier: "earshotd"), level: loaded.configuration[LogSettings.self].level)
    for complaint in loaded.complaints {
      Log.shared.warning("\(complaint.description)", id: .configurationProblem)
    }
    // This precedes other threads, which would keep the capabilities that this thread gives up.
    let privileges = Privileges(loaded.configuration[RadioSettings.self])
    let directory = options.value("write-interfaces")
    let address = BusAddress(words: options.value("bus") ?? "system")
    let name = options.value("bus-name") ?? Daemon.busName
    let outcome = Outcome()
    EventLoop.shared.soon {
      if let directory {
        outcome.code = InterfaceFiles.write(list, to: directory) ? .ok : .failed
        EventLoop.shared.stop()
      } else {
        let daemon = Daemon(
          list, loaded.configuration, files: files, address: address, name: name, privileges: privileges)
        outcome.daemon = daemon
        daemon.run { outcome.code = $0 }
      }
    }
    guard EventLoop.shared.run() else {
      Log.shared.error("The event loop failed and cannot continue")
      return .failed
    }
    return outcome.code
  }

  /// Writes an error to standard error.
  static func complain(_ text: String) {
    let bytes = Array("\(text)\n".utf8)
    _ = write(STDERR_FILENO, bytes, bytes.count)
  }

  private static let command = Command(
    "earshotd", "Bluetooth proximity services on D-Bus.",
    details: ["Run by systemd as earshotd.service. The command-line tool is earshot."],
    options: [
      Option("config", value: .file("FILE"), "Read the configuration from this file only."),
      Option("bus", value: .text("ADDRESS"), "system (the default), session, or a D-Bus address."),
      Option("bus-name", value: .text("NAME"), "The name to own on the bus (\(Daemon.busName))."),
      Option("check-config", "Report problems of the configuration and exit."),
      Option("default-config", "Print the default configuration, which explains each key, and exit."),
      Option("write-interfaces", value: .file("DIR"), "Write the D-Bus interfaces as XML files and exit."),
      Option("write-catalog", value: .file("FILE"), "Write the catalog of journal messages and exit."),
      Option("version", "Print the version and exit."),
    ])
}

/// The state and the result of the run. Only the loop's thread accesses it, before and during the run; `main` reads it
/// after the end.
private final class Outcome: @unchecked Sendable {
  var code = ExitCode.ok
  var daemon: Daemon?
}
