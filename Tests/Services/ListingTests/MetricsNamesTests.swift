import Air
import Foundation
import Glibc
import Hosting
import Listing
import Loop
import TestSupport
import Testing

@testable import DBus

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

  @Test("docs/metrics.md lists every gauge, and every counter that has an explanation of its own")
  func documented() async throws {
    let documented = Self.names(in: try Self.text("docs/metrics.md"))
    let metrics = await LoopActor.run { Self.metrics() }
    #expect(metrics.count > 60)
    for metric in metrics where metric.kind == .gauge || !metric.help.hasPrefix("Counter ") {
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
