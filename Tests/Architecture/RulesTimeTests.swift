import Testing

@Suite("Time measurement in tests")
struct RulesTimeTests {
  func broken(_ text: String, in path: String = "Tests/Host/DBusTests/Sample.swift") -> [String] {
    Rules.testsJudgeNoTime([SourceFile(path: path, text: text)])
  }

  @Test(
    "A test that measures elapsed real time or sleeps is reported",
    arguments: [
      "let start = cpuTime()", "clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)", "let clock = ContinuousClock()",
      "SuspendingClock().measure {}", "getrusage(RUSAGE_SELF, &usage)", "DispatchTime.now()",
      "ProcessInfo.processInfo.systemUptime.rounded()", "process.processorTime(1)",
      "let clock: ContinuousClock = .init()",
      "try await Task.sleep(for: .seconds(1))", "usleep(1000)", "#expect(\"\\(cpuTime())\" == a)",
    ])
  func stopwatches(source: String) {
    #expect(broken(source).count == 1)
    #expect(Rules.testsJudgeNoTime([SourceFile(path: "Sources/Host/Loop/Sample.swift", text: source)]) == [])
  }

  @Test(
    "A test time limit below 10 minutes is reported",
    arguments: [".timeLimit(.minutes(1))", "@Suite(.serialized, .timeLimit(.minutes(9)))", ".timeLimit(.seconds(600))"])
  func shortLimits(source: String) {
    #expect(broken(source).count == 1)
  }

  @Test(
    "A test that asserts an upper bound on the event loop's clock is reported",
    arguments: [
      "#expect(start.duration(to: EventLoop.shared.now) < .seconds(1))",
      "let loop = EventLoop.shared\n#expect(loop.now <= end)",
      "let begin = EventLoop.shared.now\nlet took = begin.duration(to: other)\n#expect(took < .seconds(1))",
      "let loop = EventLoop.shared\nlet begin = loop.now\ntry #require(.seconds(1) > begin.duration(to: loop.now))",
      "var end = EventLoop.shared.now\n#expect((start...end).contains(other))",
    ])
  func upperBounds(source: String) {
    #expect(broken(source).count == 1)
  }

  @Test(
    "A test that neither measures nor limits real time is not reported",
    arguments: [
      "#expect(EventLoop.shared.now >= earliest)", "engine.handle(event, at: EventLoop.shared.now)",
      "let time = VirtualTime()\n#expect(time.now < end)", "// cpuTime() is slow", "\"ContinuousClock\"",
      ".timeLimit(.minutes(10))", "let end = EventLoop.shared.now.advanced(by: Patience.limit)",
      "let loop = EventLoop.shared\n#expect(loop.now >= start.advanced(by: .seconds(1)))", "#expect(a < b)",
      "let isAsleep = sleep", "for times in 1...3 {}", "let now = EventLoop.shared.now\n#expect(know < 1 && a.now < 1)",
    ])
  func harmless(source: String) {
    #expect(broken(source) == [])
  }

  @Test(
    "An end-to-end script with a fixed time limit or an asserted duration is reported",
    arguments: [
      "async with asyncio.timeout(20):", "  async with asyncio.timeout( 3.5 ):", "    assert stage.kiosk.cpu() < 0.02",
      "assert time.monotonic() - begin < 10", "assert result.seconds < 3", "assert speed(result) > 9",
    ])
  func guests(source: String) {
    let path = "Tests/EndToEnd/suites/sample.py"
    #expect(Rules.guestsJudgeNoTime([SourceFile(path: path, text: source)]).count == 1)
    #expect(Rules.guestsJudgeNoTime([SourceFile(path: "scripts/sample.py", text: source)]) == [])
    for harmless in ["async with asyncio.timeout(limit(20)):", "# asyncio.timeout(2)", "stage.measure(speed(result))"] {
      #expect(Rules.guestsJudgeNoTime([SourceFile(path: path, text: harmless)]) == [])
    }
  }
}
