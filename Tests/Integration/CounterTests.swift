import DBus
import Foundation
import Loop
import TestSupport
import Testing
import Transfers

/// Runs `earshot verifier watch` on a terminal, and types keys.
@Suite("`earshot verifier watch` on a terminal", .serialized, .enabled(if: access("/dev/ptmx", R_OK | W_OK) == 0))
struct CounterTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "Keys in `verifier watch` accept, reject and quit without echo, and the terminal is restored",
    arguments: [(80, 24), (60, 20)])
  @LoopActor
  func keys(size: (columns: Int, rows: Int)) async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    _ = try await kiosk.start()
    let terminal = try PseudoTerminal(columns: size.columns, rows: size.rows)
    defer { terminal.close() }
    let run = try ToolRun(["earshot", "verifier", "watch"], bus: kiosk.bus.address, terminal: terminal.end)
    try await terminal.await {
      $0.grid.isTaken && $0.words.contains("Waiting for wallets.") && $0.words.hasSuffix("q quit")
    }
    for (key, state, said) in [("a", "accepted", "Accepted credential1."), ("r", "rejected", "Rejected credential2.")] {
      let outgoing = try await kiosk.send(kiosk.verifier.connectionURI, "a credential")
      // The phone waits for the verdict, and the screen shows the remaining time.
      try await terminal.await { $0.words.contains("s left") && $0.words.hasSuffix("a accept r reject q quit") }
      terminal.type(key)
      // Within 1 s of the last verdict the screen asks for the key again.
      try await terminal.await { $0.words.contains(said) || $0.words.contains("Press the key again.") }
      if !terminal.words.contains(said) { terminal.type(key) }
      try await kiosk.await(outgoing, "State", .string(state))
      try await terminal.await { $0.words.contains(said) }
    }
    terminal.type("q")
    let result = try await run.end()
    #expect(result.status == 0, "\(result)")
    try await terminal.await { !$0.grid.isTaken && $0.words.contains("Rejected credential2.") }
    #expect(terminal.isCooked && terminal.grid.isCursorShown && terminal.error == nil)
  }

  @Test(
    "The terminal is restored after a signal or a crash of `verifier watch`",
    arguments: [SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGABRT])
  @LoopActor
  func signals(signal: Int32) async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    _ = try await kiosk.start()
    let terminal = try PseudoTerminal(columns: 80, rows: 24)
    defer { terminal.close() }
    let run = try ToolRun(["earshot", "verifier", "watch"], bus: kiosk.bus.address, terminal: terminal.end)
    try await terminal.await { $0.grid.isTaken && $0.words.contains("Waiting for wallets.") }
    #expect(!terminal.isCooked)
    run.signal(signal)
    #expect(try await run.end().status == signal)
    try await terminal.await { !$0.grid.isTaken }
    #expect(terminal.isCooked && terminal.grid.isCursorShown && !terminal.grid.takesPastes)
  }

  @Test("`verifier watch` waits while the service restarts, and fetches each credential received afterwards once")
  @LoopActor
  func restart() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    _ = try await kiosk.start()
    let watch = try ToolRun.earshot("verifier", "watch", "--accept", bus: kiosk.bus.address)
    try await watch.say("Waiting for wallets.")
    kiosk.service.close()
    try await watch.say("The service has ended; waiting for it.")
    kiosk.service.connect(name: Kiosk.name)
    try await watch.say("The service is running again.")
    let outgoing = try await kiosk.send(kiosk.verifier.connectionURI, "a credential")
    try await kiosk.await(outgoing, "State", .string("accepted"))
    try await watch.say("Accepted credential1.")
    watch.signal(SIGTERM)
    let result = try await watch.end()
    #expect(result.output.components(separatedBy: "Received credential1").count == 2, "\(result)")
  }
}
