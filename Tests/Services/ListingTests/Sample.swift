import CommandLine
import Common
import Config
import DBus
import Hosting
import Journal
import Listing
import Loop
import Radio
import Tool

/// A sample service as it would be in a folder of its own.
final class SampleService: Service {
  struct Settings: SettingsSection {
    var greeting = "hello"

    static let section = "Sample"
    static let keys: [Setting<Settings>] = [
      Setting("Greeting", \.greeting, .text(upTo: 20), .onReload, "What is called out.")
    ]
  }

  nonisolated static let name = "Sample"
  nonisolated static let sections: [any SettingsSection.Type] = [Settings.self]
  nonisolated static let linkShare = LinkShare(needs: 0, may: 1, priority: 0)
  nonisolated static let waved = MessageID(
    "SampleWaved", "0123456789abcdef0123456789abcdef", "It waved",
    "A program asked it to.")
  nonisolated static let messages = [waved]
  nonisolated static let interfaceName = "org.earshot.Sample1"
  nonisolated static let path: ObjectPath = "/org/earshot/sample"

  let radio: any Radio
  private(set) var settings: Settings
  private var statusChanged: @LoopActor () -> Void
  private(set) var waves = 0
  /// The calls that the service host made, in order.
  private(set) var lines: [String] = []

  /// The latest instance.
  @LoopActor static weak var latest: SampleService?

  private init(_ context: ServiceContext) {
    radio = context.radio
    settings = context.configuration[Settings.self]
    statusChanged = context.statusChanged
  }

  static func make(_ context: ServiceContext) -> SampleService? {
    let service = SampleService(context)
    latest = service
    return service
  }

  static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    [DescribedObject(path.string, interface { "" })]
  }

  private static func interface(_ wave: @escaping @LoopActor () -> String) -> Interface {
    Interface(
      interfaceName, documentation: "Waves.",
      methods: [
        Method(
          "Wave", out: [Argument("greeting", "s")], documentation: "Waves once.",
          returning: { _ throws(DBusError) in [.string(wave())] })
      ],
      properties: [Property("Mood", "s", documentation: "Its mood.", get: { .string("sunny") })])
  }

  func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    let interface = Self.interface { [weak self] in self?.wave() ?? "" }
    return [tree.export(Self.path, interfaces: [interface], manager: manager)]
  }

  private func wave() -> String {
    waves += 1
    statusChanged()
    return settings.greeting
  }

  func begin() { lines.append("begin") }

  func apply(_ configuration: Configuration) {
    lines.append("apply")
    settings = configuration[Settings.self]
  }

  var statusLine: String { "It waved \(waves) times." }

  func stop() { lines.append("stop") }

  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    lines.append("rest")
    then()
  }
}

/// The sample's commands for the tool.
enum SampleTool {
  static let part = ToolPart(
    verbs: [
      Verb(
        "sample", "Wave.",
        verbs: [
          Verb("wave", "Wave once.", options: [Option("twice", "Wave once more.")]) {
            client, line async throws(Failure) in
            try await client.connect()
            for _ in 0..<(line.flag("twice") ? 2 : 1) {
              try await client.call(SampleService.path, SampleService.interfaceName, "Wave")
            }
            return .ok
          }
        ])
    ],
    status: { objects in
      let mood = objects[SampleService.path.string]?[SampleService.interfaceName]?["Mood"]?.text
      return mood.map { "  sample    \($0)\n" } ?? ""
    })
}
