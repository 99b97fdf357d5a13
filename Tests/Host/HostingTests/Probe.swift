import Common
import Config
import DBus
import Hosting
import Journal
import Loop
import Radio

/// The calls to the probes of a test, in order. A test begins with a new record and does not suspend.
@LoopActor
final class Record {
  static var current = Record()

  var lines: [String] = []
  /// Callbacks that end each probe's `rest`, by its name; a probe that is not in `tired` ends at once.
  var resting: [String: @LoopActor () -> Void] = [:]
  var tired: Set<String> = []
  /// Callbacks that end each probe's `restore`; a probe that is not in `forgetful` ends at once.
  var restoring: [String: @LoopActor () -> Void] = [:]
  var forgetful: Set<String> = []
  var isOff: Set<String> = []
  var statusLines: [String: String] = [:]
  var contexts: [String: ServiceContext] = [:]
}

protocol ProbeName: Sendable {
  static var name: String { get }
}

enum First: ProbeName { static let name = "First" }
enum Second: ProbeName { static let name = "Second" }
enum Third: ProbeName { static let name = "Third" }

/// A service that records its calls.
final class Probe<Name: ProbeName>: Service {
  nonisolated static var name: String { Name.name }
  nonisolated static var sections: [any SettingsSection.Type] { [] }
  nonisolated static var linkShare: LinkShare { .nothing }
  nonisolated static var messages: [MessageID] { [] }

  static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] { [] }

  static func make(_ context: ServiceContext) -> Probe? {
    guard !Record.current.isOff.contains(name) else { return nil }
    Record.current.contexts[name] = context
    return Probe()
  }

  private func note(_ word: String) { Record.current.lines.append("\(Name.name) \(word)") }

  func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    note("export below \(manager.string)")
    let interface = Interface("org.example.\(Name.name)1", documentation: "A probe.")
    return [tree.export(manager.child(Name.name), interfaces: [interface], manager: manager)]
  }

  func begin() { note("begin") }

  func whenRestored(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    if Record.current.forgetful.contains(Name.name) { Record.current.restoring[Name.name] = then } else { then() }
  }

  func apply(_ configuration: Configuration) { note("apply") }

  var statusLine: String { Record.current.statusLines[Name.name] ?? "" }

  func stop() { note("stop") }

  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    note("rest within \(limit)")
    if Record.current.tired.contains(Name.name) { Record.current.resting[Name.name] = then } else { then() }
  }
}
