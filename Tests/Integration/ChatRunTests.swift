import DBus
import Foundation
import Loop
import TestSupport
import Testing

@Suite("The chat with a mesh on the bus")
struct ChatRunTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func chat(_ mesh: StandInMesh, _ terminal: PseudoTerminal) throws -> ToolRun {
    try ToolRun(["earshot", "chat"], bus: mesh.bus.address, terminal: terminal.end)
  }

  @Test(
    "`earshot chat` in 80 by 24 shows the history, sends messages and survives a restart of the service",
    arguments: TerminalGrid.Measure.allCases)
  @LoopActor
  func sitting(measure: TerminalGrid.Measure) async throws {
    let mesh = try await StandInMesh()
    defer { mesh.close() }
    for number in 1...5 { mesh.hear(StandInMesh.bob, "before \(number)") }
    let terminal = try PseudoTerminal(columns: 80, rows: 24, measure: measure)
    defer { terminal.close() }
    let run = try Self.chat(mesh, terminal)
    try await terminal.await { $0.words.contains("<bob>: before 5") && $0.words.contains("2 carol") }
    _ = try await mesh.calls.first { $0 == "MarkRead 5" }
    #expect(
      terminal.grid.text[0].hasPrefix(" # everybody · 2 near") && terminal.grid.text[0].hasSuffix("anna · 1 link"))

    terminal.type("Hällo 👩‍👩‍👧 受信\r")
    let said = try await mesh.calls.first { $0.hasPrefix("Say") }
    #expect(said == "Say Hällo 👩‍👩‍👧 受信")
    try await terminal.await { $0.words.contains("<anna>: Hällo 👩 受信 ✓") }

    mesh.hear(StandInMesh.carol, "psst \u{1B}[2J\u{202E}", isPrivate: true)
    try await terminal.await { $0.grid.text[3].hasPrefix("2 carol           1│") }
    terminal.type("/msg ca\tyes?\r")
    let told = try await mesh.calls.first { $0.hasPrefix("Tell") }
    #expect(told == "Tell \(StandInMesh.carol) yes?")
    try await terminal.await { $0.words.contains("<carol>: psst ��[2J�") || $0.words.contains("<carol>: psst �[2J�") }
    try await terminal.await { $0.words.contains("<anna>: yes? ·") }
    mesh.set(mesh.messages.count, "delivered")
    try await terminal.await { $0.words.contains("<anna>: yes? ✓✓") }
    mesh.set(mesh.messages.count, "read")
    try await terminal.await { $0.words.contains("<anna>: yes? ✓✓ read") }

    terminal.type("refuse this\r")
    try await terminal.await {
      $0.words.contains("-- The clock is not known to be right.") && $0.grid.text[23] == "› refuse this"
    }
    terminal.type("\u{15}")

    mesh.stop()
    try await terminal.await { $0.words.contains("The service is not running; waiting for it.") }
    try await mesh.start()
    try await terminal.await { $0.grid.text[0].hasSuffix("anna · 1 link") && $0.words.contains("<anna>: yes? ✓✓ read") }

    terminal.resize(columns: 100, rows: 30)
    run.signal(SIGWINCH)
    try await terminal.await {
      $0.grid.text[0].hasSuffix("anna · 1 link") && $0.grid.text[0].count == 99 && $0.grid.text[29] == "›"
    }
    terminal.resize(columns: 30, rows: 10)
    run.signal(SIGWINCH)
    try await terminal.await { $0.words.contains("Too small") }

    terminal.type("\u{3}")
    let result = try await run.end()
    #expect(result.status == 0 && result.complaint.isEmpty, "\(result)")
    try await terminal.await { !$0.grid.isTaken && $0.isCooked && $0.grid.isCursorShown }
    #expect(terminal.error == nil, "\(String(describing: terminal.error))")
  }

  @Test("A termination signal ends the chat and restores the terminal", arguments: [SIGTERM, SIGINT, SIGHUP])
  @LoopActor
  func signals(signal: Int32) async throws {
    let mesh = try await StandInMesh()
    defer { mesh.close() }
    let terminal = try PseudoTerminal(columns: 80, rows: 24)
    defer { terminal.close() }
    let run = try Self.chat(mesh, terminal)
    try await terminal.await { $0.words.contains("2 carol") }
    #expect(!terminal.isCooked)
    run.signal(signal)
    let status = try await run.end().status
    #expect(status == 0)
    try await terminal.await { !$0.grid.isTaken && $0.isCooked }
  }

  @Test(
    "Without a terminal, the chat reads lines from its input, prints unread messages and ends with its input"
  )
  @LoopActor
  func lines() async throws {
    let mesh = try await StandInMesh()
    defer { mesh.close() }
    mesh.hear(StandInMesh.bob, "old\nnews\u{1B}[2J")
    mesh.hear(StandInMesh.carol, "for you", isPrivate: true)
    let input = "hello all\n\n/msg bob for bob\n//slash\nlast"
    let result = try await ToolRun(["earshot", "chat"], bus: mesh.bus.address, input: input).end()
    #expect(result.status == 0 && result.complaint.isEmpty, "\(result)")
    let written = result.output.split(separator: "\n").map { $0.dropFirst(5) }
    #expect(written == [" <bob>: old ⏎ news\u{FFFD}[2J", " <carol> → you: for you"])
    let said = mesh.calls.all.filter { !$0.hasPrefix("MarkRead") }
    #expect(said == ["Say hello all", "Tell \(StandInMesh.bob) for bob", "Say /slash", "Say last"])
    #expect(mesh.calls.all.filter { $0.hasPrefix("MarkRead") }.sorted() == ["MarkRead 1", "MarkRead 2"])

    // Messages on the screen count as read, and are not printed again.
    mesh.hear(StandInMesh.bob, "new \"one\"")
    let json = try await ToolRun(["earshot", "chat", "--json"], bus: mesh.bus.address).end()
    let objects = try json.output.split(separator: "\n").map {
      try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
    }
    #expect(objects.count == 1 && objects[0]?["text"] as? String == "new \"one\"")
    #expect(objects.first??["sender"] as? String == StandInMesh.bob && objects.first??["private"] as? Bool == false)
  }

  @Test("The chat reports a line that cannot be sent, sends the others, and exits with a failure status")
  @LoopActor
  func refused() async throws {
    let mesh = try await StandInMesh()
    defer { mesh.close() }
    let input = "/msg dave secret\nrefuse this\n/quti\nfine\n"
    let result = try await ToolRun(["earshot", "chat"], bus: mesh.bus.address, input: input).end()
    #expect(result.status == 1)
    for words in ["No peer is called <dave>.", "The clock is not known to be right.", "/quti is not available here."] {
      #expect(result.complaint.contains(words), "\(result)")
    }
    #expect(mesh.calls.all == ["Say refuse this", "Say fine"])
  }

  @Test("With --follow the chat continues after its input ends, and reports when the service is gone")
  @LoopActor
  func follow() async throws {
    let mesh = try await StandInMesh()
    defer { mesh.close() }
    let run = try ToolRun(["earshot", "chat", "--follow"], bus: mesh.bus.address, input: "hi\n")
    let first = try await mesh.calls.next()
    #expect(first == "Say hi")
    mesh.hear(StandInMesh.bob, "one")
    try await run.say("<bob>: one")
    _ = try await mesh.calls.first { $0.hasPrefix("MarkRead") }
    mesh.stop()
    try await mesh.start()
    mesh.hear(StandInMesh.carol, "two")
    try await run.say("<carol>: two")
    run.signal(SIGTERM)
    let said = try await run.end().output
    #expect(said.split(separator: "\n").count == 2, "\(said)")
    mesh.stop()
    let alone = try await ToolRun(["earshot", "chat"], bus: mesh.bus.address, input: "hi\n").end()
    #expect(alone.status == 3 && alone.complaint.contains("is not running"), "\(alone)")
  }
}
