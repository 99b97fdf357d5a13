import Air
import Common
import DBus
import Glibc
import Loop
import TestSupport
import Testing

@testable import Hosting

@Suite("Prometheus metrics")
struct MetricsTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A metric has help, type and samples with escaped labels, and a metric without samples is left out")
  func text() {
    let metrics = [
      Metric("earshot_a_total", .counter, help: "Number of \\ and\nlines.", [.init(7)]),
      Metric("earshot_b", .gauge, help: "A \"state\".", [.init(1, .init("state", "a\"b\\c\nd"), .init("x", "y"))]),
      Metric("earshot_c", .gauge, help: "Nothing.", []),
    ]
    #expect(
      MetricsText.text(metrics) == """
        # HELP earshot_a_total Number of \\\\ and\\nlines.
        # TYPE earshot_a_total counter
        earshot_a_total 7
        # HELP earshot_b A "state".
        # TYPE earshot_b gauge
        earshot_b{state="a\\"b\\\\c\\nd",x="y"} 1

        """)
  }

  @Test("D-Bus names in camel case become metric names with underscores")
  func names() {
    #expect(MetricsText.snake("CrcFailures") == "crc_failures")
    #expect(MetricsText.snake("PresenceRadio") == "presence_radio")
    #expect(MetricsText.snake("Mtu") == "mtu")
    #expect(MetricsText.snake("RFCOMMTooManyConnections") == "rfcomm_too_many_connections")
  }

  @LoopActor
  private static func interface(_ name: String, hasCounters: Bool = true) -> Interface {
    let counters = Property(
      "Counters", "a{st}", audience: .everybody, emits: .none,
      get: { .tallies([Tally("Sessions", 3), Tally("CrcFailures", 0)]) })
    return Interface(
      name, audience: .everybody,
      properties: [
        Property("State", "s", documentation: "The state.", audience: .everybody, get: { .string("waiting") }),
        Property("Live", "b", documentation: "Whether.", audience: .everybody, get: { .bool(true) }),
        Property("Sessions", "u", documentation: "Sessions.", audience: .everybody, get: { .uint32(2) }),
        Property("Unread", "u", documentation: "For the group.", audience: .group, get: { .uint32(9) }),
        Property("Name", "s", documentation: "A name.", audience: .everybody, get: { .string("kiosk") }),
      ] + (hasCounters ? [counters] : []))
  }

  @Test("The metrics contain counters, numbers, booleans and states that every program may read")
  func collected() async {
    await LoopActor.run {
      let time = VirtualTime()
      let bus = BusConnection(address: .address("unix:path=/nowhere"))
      let objects = [
        bus.objects.export("/org/earshot/verifier", interfaces: [Self.interface("org.earshot.Verifier1")]),
        // An object without counters is not a service's own.
        bus.objects.export(
          "/org/earshot/verifier/credential1",
          interfaces: [Self.interface("org.earshot.Credential1", hasCounters: false)]),
      ]
      defer { for object in objects { object.cancel() } }
      let collector = MetricsCollector(
        bus.objects, meanings: ["org.earshot.Verifier1": ["Sessions": "wallets"]], version: "1.2",
        clock: VirtualWallClock(time))
      let metrics = collector.metrics()
      #expect(
        metrics.map(\.name) == [
          "earshot_build_info", "earshot_start_time_seconds", "earshot_written_time_seconds", "earshot_verifier_state",
          "earshot_verifier_live", "earshot_verifier_sessions", "earshot_verifier_crc_failures_total",
          "earshot_verifier_sessions_total",
        ])
      #expect(
        metrics.last == Metric("earshot_verifier_sessions_total", .counter, help: "Number of wallets.", [.init(3)]))
      #expect(metrics.first { $0.name == "earshot_verifier_state" }?.samples == [.init(1, .init("state", "waiting"))])
      #expect(!MetricsText.text(metrics).contains("kiosk"))
    }
  }

  @Test(
    "The metrics file is written at the start and at each interval, readable for all users, but not with interval 0s")
  @LoopActor
  func file() async throws {
    let folder = try ScratchFolder()
    let time = VirtualTime()
    var count = 0
    let file = MetricsFile(
      path: folder.path("metrics.prom"), interval: .seconds(15), scheduler: time, disk: time,
      text: {
        count += 1
        return "written \(count)\n"
      })
    file.begin()
    time.advance(by: .seconds(31))
    #expect(try folder.read("metrics.prom") == Array("written 3\n".utf8))
    #expect(try folder.mode("metrics.prom") == 0o644)
    #expect(!folder.exists("metrics.prom.new"))
    file.interval = .zero
    time.advance(by: .seconds(60))
    #expect(count == 3)
    file.interval = .seconds(5)
    time.advance(by: .seconds(1))
    #expect(count == 4)
  }

  @Test("A pipe or a link in the place of the new file is replaced, and nothing is written to it")
  func otherFiles() async throws {
    let folder = try ScratchFolder()
    try await LoopActor.run {
      let time = VirtualTime()
      let file = MetricsFile(
        path: folder.path("metrics.prom"), interval: .seconds(15), scheduler: time, disk: time, text: { "text\n" })
      try #require(mkfifo(folder.path("metrics.prom.new"), 0o600) == 0)
      // A write to a pipe without a reader would block the test.
      let reader = open(folder.path("metrics.prom.new"), O_RDONLY | O_NONBLOCK | O_CLOEXEC)
      defer { close(reader) }
      file.begin()
      time.advance(by: .seconds(1))
      var status = stat()
      #expect(lstat(folder.path("metrics.prom"), &status) == 0 && status.st_mode & S_IFMT == S_IFREG)
      try folder.write(Array("other".utf8), to: "other")
      try folder.linkSymbolically(folder.path("other"), as: "metrics.prom.new")
      time.advance(by: .seconds(15))
      #expect(try folder.read("other") == Array("other".utf8))
      #expect(try folder.read("metrics.prom") == Array("text\n".utf8))
    }
  }

  @Test("If the folder of the metrics file does not exist, later writes are still attempted")
  @LoopActor
  func noFolder() async throws {
    let folder = try ScratchFolder()
    let time = VirtualTime()
    let file = MetricsFile(
      path: folder.path("run/metrics.prom"), interval: .seconds(15), scheduler: time, disk: time, text: { "text\n" })
    file.begin()
    time.advance(by: .seconds(1))
    try folder.make("run")
    time.advance(by: .seconds(20))
    #expect(folder.exists("run/metrics.prom"))
  }
}
