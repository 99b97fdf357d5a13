import Air
import Bitchat
import Foundation
import Glibc
import Hosting
import Listing
import Loop
import TestSupport
import Testing

@testable import BlueZ
@testable import DBus
@testable import Noise

/// The names of the metrics, in the documentation and in the dashboard.
@Suite("Names of the metrics")
struct MetricsNamesTests {
  init() { EventLoop.shared.runInBackground() }

  private static func text(_ path: String) throws -> String {
    let top = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    return try String(contentsOf: top.appending(path: path), encoding: .utf8)
  }

  private static func names(in text: String) -> Set<String> {
    Set(text.matches(of: /earshot_[a-z_]+/).map { String($0.0) })
  }

  /// The metrics of all services, when all are on.
  @LoopActor
  private static func metrics() -> [Metric] {
    let time = VirtualTime()
    let bus = BusConnection(address: .address("unix:path=/nowhere"))
    let radio = AirSpace(scheduler: time, seed: 0).addNode().tenant(time)
    let objects = ServiceList.all.objects(radio: radio, scheduler: time).compactMap { described in
      ObjectPath(described.path).map { bus.objects.export($0, interfaces: [described.interface]) }
    }
    defer { for object in objects { object.cancel() } }
    let meanings = ServiceList.all.counterMeanings
    return MetricsCollector(bus.objects, meanings: meanings, version: "1", clock: VirtualWallClock(time)).metrics()
  }

  /// The interfaces whose counters are metrics, and the names of their services in metrics.
  private static let services = [
    "org.earshot.Manager1": "service", "org.earshot.Verifier1": "verifier", "org.earshot.Wallet1": "wallet",
    "org.earshot.Mesh1": "mesh", "org.earshot.Broadcast1": "broadcast",
  ]

  /// The counters in the tables of docs/metrics.md: the meaning of each metric, by its name.
  private static func documentedCounters() throws -> [String: String] {
    var counters: [String: String] = [:]
    for line in try text("docs/metrics.md").split(separator: "\n") where line.hasPrefix("| `earshot_") {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      let name = cells[0].filter { $0 != "`" }
      if cells.count == 2, name.hasSuffix("_total") { counters[name] = cells[1] }
    }
    return counters
  }

  @Test("docs/metrics.md lists exactly the counters that the tool explains, with the same meanings")
  func counterTables() throws {
    let documented = try Self.documentedCounters()
    var explained: [String: String] = [:]
    for (interface, meanings) in ServiceList.all.counterMeanings {
      guard let service = Self.services[interface] else { continue }
      for (name, meaning) in meanings { explained["earshot_\(service)_\(MetricsText.snake(name))_total"] = meaning }
    }
    #expect(documented.count > 150)
    for name in Set(documented.keys).union(explained.keys) {
      #expect(documented[name] == explained[name], "\(name)")
    }
  }

  @Test("The tool explains exactly the counters that the services have")
  @LoopActor
  func counterNames() {
    let time = VirtualTime()
    let radio = AirSpace(scheduler: time, seed: 0).addNode().tenant(time)
    var names: [String: Set<String>] = [:]
    for described in ServiceList.all.objects(radio: radio, scheduler: time) {
      guard let counters = described.interface.property("Counters")?.get().asDictionary else { continue }
      names[described.interface.name, default: []].formUnion(counters.keys)
    }
    // The bus, the radio of BlueZ and the node of the mesh have further counters while the service runs.
    let bus = BusConnection(address: .address("unix:path=/nowhere"))
    let ofBus = bus.objects.tallies.map(\.name)
    let ofRadio = BlueZCounters().tallies.map(\.name)
    names["org.earshot.Manager1", default: []].formUnion(ofBus + ofRadio)
    let ofNode = NodeCounters().tallies.map(\.name)
    let ofSessions = Sessions<Int>.Counters().tallies.map { "Noise\($0.name)" }
    names["org.earshot.Mesh1", default: []].formUnion(ofNode + ofSessions)
    let meanings = ServiceList.all.counterMeanings
    for interface in Self.services.keys {
      let explained = Set((meanings[interface] ?? [:]).keys)
      let differences = explained.symmetricDifference(names[interface] ?? []).sorted()
      #expect(differences.isEmpty, "\(interface): \(differences)")
    }
  }

  @Test("docs/metrics.md lists every gauge, and every counter")
  func documented() async throws {
    let documented = Self.names(in: try Self.text("docs/metrics.md"))
    let metrics = await LoopActor.run { Self.metrics() }
    #expect(metrics.count > 60)
    for metric in metrics {
      #expect(documented.contains(metric.name), "\(metric.name)")
    }
    #expect(metrics.map(\.name).count == Set(metrics.map(\.name)).count)
  }

  @Test("Metric names and help texts follow the rules of Prometheus")
  func rules() async {
    for metric in await LoopActor.run({ Self.metrics() }) {
      #expect(metric.name.wholeMatch(of: /[a-z][a-z0-9_]+/) != nil, "\(metric.name)")
      #expect(metric.name.hasSuffix("_total") == (metric.kind == .counter), "\(metric.name)")
      #expect(!metric.help.isEmpty && metric.help.hasSuffix("."), "\(metric.name)")
    }
  }

  /// Whether promtool of Prometheus is in `$PATH`.
  private static var hasPromtool: Bool {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
    return folders.contains { FileManager.default.isExecutableFile(atPath: "\($0)/promtool") }
  }

  @Test("promtool has nothing to say about the metrics", .enabled(if: hasPromtool, "this needs promtool"))
  func promtool() async throws {
    let folder = try ScratchFolder()
    let text = await LoopActor.run { MetricsText.text(Self.metrics()) }
    try folder.write(Array(text.utf8), to: "metrics.prom")
    let input = open(folder.path("metrics.prom"), O_RDONLY | O_CLOEXEC)
    let output = open(folder.path("output"), O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    defer {
      close(input)
      close(output)
    }
    let status = try Program(["promtool", "check", "metrics"], passing: [0: input, 1: output, 2: output]).wait()
    #expect(status == 0)
    #expect(String(decoding: try folder.read("output"), as: UTF8.self) == "")
  }

  @Test("The dashboard is valid JSON and uses only documented metrics")
  func dashboard() throws {
    let text = try Self.text("examples/grafana/earshot.json")
    #expect(try JSONSerialization.jsonObject(with: Data(text.utf8)) is [String: Any])
    let unknown = Self.names(in: text).subtracting(Self.names(in: try Self.text("docs/metrics.md")))
    #expect(unknown.isEmpty, "\(unknown.sorted())")
  }
}
