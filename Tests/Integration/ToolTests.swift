import DBus
import Foundation
import Loop
import TestSupport
import Testing
import Transfers
import Verifier

/// `earshot` as a process, with a service in this process.
@Suite("The command-line tool `earshot`", .serialized)
struct ToolTests {
  init() { EventLoop.shared.runInBackground() }

  private static func folder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
  }

  private static func files(_ folder: URL) throws -> [String: String] {
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    return try names.reduce(into: [:]) {
      $0[$1] = try String(contentsOf: folder.appendingPathComponent($1), encoding: .utf8)
    }
  }

  private static func permissions(_ file: URL) -> mode_t {
    var status = stat()
    return lstat(file.path, &status) == 0 ? status.st_mode & 0o7777 : 0
  }

  /// Runs a transfer up to its verdict, or until it waits for one.
  @LoopActor
  private static func visit(_ kiosk: Kiosk, _ credential: String) async throws -> ObjectPath {
    try await kiosk.send(kiosk.verifier.connectionURI, credential)
  }

  @LoopActor
  private static func run(_ kiosk: Kiosk, _ words: String...) async throws -> ToolRun.Result {
    try await ToolRun(["earshot"] + words, bus: kiosk.bus.address).end()
  }

  @LoopActor
  private static func state(_ kiosk: Kiosk, _ path: ObjectPath) async throws -> String? {
    try await kiosk.property(path, "State", of: CredentialObjects.interfaceName)?.asString
  }

  // MARK: Exit status

  @Test("Each kind of failure of `earshot` has its own exit status")
  @LoopActor
  func statuses() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let bus = kiosk.bus.address
    let version = try await Self.run(kiosk, "--version")
    #expect(version.status == 0 && version.output.hasPrefix("earshot ") && version.output.count > 11)
    for (words, status, complaint) in [
      (["status"], Int32(0), ""),
      (["verifier", "show"], 1, "The verifier is stopped. Try: earshot verifier start"),
      (["transfers", "get", "credential9"], 1, "There is no transfer credential9."),
      (["mesh"], 1, "The mesh is off. Put Enabled=yes into the section [Mesh] of /etc/earshot/earshot.conf"),
      (["mesh", "say", "a word"], 1, "The mesh is off."),
      (["mesh", "wipe"], 1, "The mesh is off."),
      (["nearby"], 1, "The local broadcast channel is off. Put Enabled=yes into the section [Broadcast]"),
      (["nearby", "send", "a word"], 1, "The local broadcast channel is off."),
      (["nearby", "limit", "3"], 1, "The local broadcast channel is off."),
      (["wallet", "send", "--uri", "x", "/tmp"], 2, "/tmp is a folder."),
      (["nonsense"], 2, "There is no command nonsense."),
      (["verifier", "watch", "--accept", "--reject"], 2, "--accept and --reject exclude each other."),
      (["verifier", "watch", "--output", "/tmp/one-file"], 2, "which the next credential would replace"),
      (["--bus-name", "org.earshot.nobody", "status"], 3, "org.earshot.nobody is not running."),
      (["verifier", "watch", "--once", "--for", "0.1"], 5, "No credential was received within the time of --for."),
      (["verifier", "watch", "--output", "/nowhere/at/all/"], 7, "/nowhere/at/all cannot be written to"),
      (["--bus", "unix:path=/nowhere", "status"], 8, "--bus selects another bus."),
      (["--bus", "nonsense", "status"], 8, "--bus selects another bus."),
    ] {
      let result = try await ToolRun(["earshot"] + words, bus: bus).end()
      #expect(result.status == status, "\(words): \(result)")
      #expect(complaint.isEmpty || result.complaint.contains(complaint), "\(words): \(result)")
    }
    let help = try await Self.run(kiosk, "--help").output
    for text in ["6 sent, but no verdict received", "7 output cannot be written", "8 no bus at this address"] {
      #expect(help.split(whereSeparator: \.isWhitespace).joined(separator: " ").contains(text))
    }
  }

  @Test("`earshot` reports a failed write to standard output, and exits with status 7")
  @LoopActor
  func fullDisk() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    _ = try await kiosk.start()
    for words in [["status"], ["verifier", "show"], ["transfers"], ["--help"], ["verifier", "watch"]] {
      let result = try await ToolRun(["earshot"] + words, bus: kiosk.bus.address, into: "/dev/full").end()
      #expect(result.status == 7 && result.complaint.contains("No space left"), "\(words): \(result)")
    }
  }

  @Test("`wallet send` exits with status 6 if it gets no verdict")
  @LoopActor
  func undecided() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: file) }
    try "x".write(to: file, atomically: true, encoding: .utf8)
    let uri = try await kiosk.start()
    let send = try ToolRun.earshot("wallet", "send", "--uri", uri, file.path, bus: kiosk.bus.address)
    let incoming = try await kiosk.received.next()
    _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "Disconnect")
    let result = try await send.end()
    #expect(result.status == 6 && result.complaint.contains("gave no verdict"), "\(result)")
  }

  // MARK: Stored files

  @Test("`verifier watch` writes each credential to its own file with mode 600 before it accepts the wallet")
  @LoopActor
  func eachItsFile() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    // An existing file is not changed.
    try "older".write(to: folder.appendingPathComponent("vc-credential2.json"), atomically: true, encoding: .utf8)
    _ = try await kiosk.start()
    let watch = try ToolRun.earshot(
      "verifier", "watch", "--accept", "--output", folder.path + "/vc-{}.json", bus: kiosk.bus.address)
    try await watch.say("Waiting for wallets.")
    for text in ["first", "second", "third"] {
      let outgoing = try await Self.visit(kiosk, text)
      try await kiosk.await(outgoing, "State", .string("accepted"))
      // The file exists before the wallet is notified.
      #expect(try Self.files(folder).values.contains(text))
      try await kiosk.await(try await kiosk.received.next(), "Live", .bool(false))
    }
    #expect(
      try Self.files(folder) == [
        "vc-credential1.json": "first", "vc-credential2.json": "older", "vc-credential2-2.json": "second",
        "vc-credential3.json": "third",
      ])
    #expect(Self.permissions(folder.appendingPathComponent("vc-credential1.json")) == 0o600)
    watch.signal(SIGTERM)
    let said = try await watch.end().output
    // The content of a credential is not shown without the option for it.
    #expect(!said.contains("first") && said.contains("vc-credential1.json") && said.contains("Accepted credential3."))
  }

  @Test("A credential that `verifier watch` cannot write to a file is not accepted, and stays in the service")
  @LoopActor
  func notStored() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let folder = try Self.folder()
    _ = try await kiosk.start()
    let watch = try ToolRun.earshot(
      "verifier", "watch", "--once", "--accept", "--output", folder.path, bus: kiosk.bus.address)
    try await watch.say("Waiting for wallets.")
    try FileManager.default.removeItem(at: folder)
    _ = try await Self.visit(kiosk, "x")
    let result = try await watch.end()
    #expect(result.status == 7 && result.complaint.contains("earshot transfers get credential1"), "\(result)")
    let incoming = try await kiosk.received.next()
    #expect(try await Self.state(kiosk, incoming) == "received")
  }

  @Test("`verifier watch` does not accept a credential if it cannot print its report")
  @LoopActor
  func notTold() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    _ = try await kiosk.start()
    _ = try await Self.visit(kiosk, "x")
    let incoming = try await kiosk.received.next()
    let watch = try ToolRun.earshot(
      "verifier", "watch", "--json", "--waiting", "--once", "--accept", bus: kiosk.bus.address, into: "/dev/full")
    #expect(try await watch.end().status == 7)
    #expect(try await Self.state(kiosk, incoming) == "received")
  }

  @Test("A fixed output file of `verifier watch` is replaced by each credential and has mode 600")
  @LoopActor
  func oneFile() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appendingPathComponent("received")
    try "a longer text that stood there before".write(to: file, atomically: true, encoding: .utf8)
    #expect(chmod(file.path, 0o666) == 0)
    _ = try await kiosk.start()
    let watch = try ToolRun.earshot(
      "verifier", "watch", "--once", "--accept", "-o", file.path, bus: kiosk.bus.address)
    try await watch.say("Waiting for wallets.")
    _ = try await Self.visit(kiosk, "new")
    #expect(try await watch.end().status == 0)
    #expect(try Self.files(folder) == ["received": "new"])
    #expect(Self.permissions(file) == 0o600)
  }

  @Test("`verifier watch --once` ends after the program of --exec has handled the verdict")
  @LoopActor
  func lastEvent() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let (folder, output) = (try Self.folder(), try Self.folder())
    defer {
      try? FileManager.default.removeItem(at: folder)
      try? FileManager.default.removeItem(at: output)
    }
    let program = folder.appendingPathComponent("handler")
    try "#!/bin/sh\ncat >>\"$0.events\"\n".write(to: program, atomically: true, encoding: .utf8)
    #expect(chmod(program.path, 0o700) == 0)
    _ = try await kiosk.start()
    let watch = try ToolRun.earshot(
      "verifier", "watch", "--once", "--accept", "-o", output.path, "--exec", program.path, bus: kiosk.bus.address)
    try await watch.say("Waiting for wallets.")
    _ = try await Self.visit(kiosk, "new")
    #expect(try await watch.end().status == 0)
    let events = try String(contentsOf: folder.appendingPathComponent("handler.events"), encoding: .utf8)
    #expect(events.contains("\"credential\"") && events.contains("\"verdictDelivery\""))
  }

  @Test("`verifier watch --once` fetches the next credential, and an earlier one only on request")
  @LoopActor
  func fromNowOn() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    _ = try await kiosk.start()
    let first = try await Self.visit(kiosk, "older")
    let older = try await kiosk.received.next()
    _ = try await kiosk.call(older, CredentialObjects.interfaceName, "Disconnect")
    try await kiosk.await(first, "State", .string("undecided"))
    let watch = try ToolRun.earshot(
      "verifier", "watch", "--once", "--accept", "-o", folder.path, bus: kiosk.bus.address)
    try await watch.say("1 earlier credential waits for a verdict.")
    let newer = try await Self.visit(kiosk, "newer")
    try await kiosk.await(newer, "State", .string("accepted"))
    #expect(try await watch.end().status == 0)
    #expect(try Self.files(folder) == ["credential2": "newer"])
    #expect(try await Self.state(kiosk, older) == "received")
    let waiting = try await Self.run(kiosk, "verifier", "watch", "--once", "--waiting", "--reject", "--show")
    #expect(waiting.status == 0 && waiting.output.contains("older"))
    #expect(try await Self.state(kiosk, older) == "rejected")
  }

  @Test("`verifier watch` reports that the verifier stopped, and continues when it starts again")
  @LoopActor
  func stopped() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let watch = try ToolRun.earshot("verifier", "watch", "--once", bus: kiosk.bus.address)
    try await watch.say("The verifier is stopped. Try: earshot verifier start")
    #expect(!watch.said.contains("Waiting"))
    try await watch.say("\n")
    let uri = try await kiosk.start()
    try await watch.say(uri)
    _ = try await Self.visit(kiosk, "x")
    #expect(try await watch.end().status == 0)
  }

  // MARK: Commands for single transfers

  @Test("`earshot transfers` lists, shows, fetches, judges and erases transfers")
  @LoopActor
  func byHand() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    #expect(try await Self.run(kiosk, "transfers").output == "There are no transfers.\n")
    _ = try await kiosk.start()
    var incoming: [ObjectPath] = []
    for text in ["one", "two", "three"] {
      _ = try await Self.visit(kiosk, text)
      incoming.append(try await kiosk.received.next())
      _ = try await kiosk.call(incoming[incoming.count - 1], CredentialObjects.interfaceName, "Disconnect")
      try await kiosk.await(incoming[incoming.count - 1], "Live", .bool(false))
    }
    let list = try await Self.run(kiosk, "transfers", "list")
    #expect(list.output.contains("credential3         received") && list.output.contains("wallet/credential1"))
    let json = try await Self.run(kiosk, "transfers", "--json").output
    let parsed = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: Any]]
    #expect(parsed?.count == 6 && parsed?.first?["transfer"] as? String == incoming[0].string)

    let shown = try await Self.run(kiosk, "transfers", "show", "1").output
    #expect(shown.contains("State             received\n") && !shown.contains("one"))
    #expect(try await Self.run(kiosk, "transfers", "get", "credential1").output == "one")
    let get = try await Self.run(kiosk, "transfers", "get", "verifier/credential2", "-o", folder.path + "/")
    #expect(get.status == 0 && !get.output.contains("two"))
    #expect(try Self.files(folder) == ["credential2": "two"])
    #expect(Self.permissions(folder.appendingPathComponent("credential2")) == 0o600)

    let note = "The phone had already left and was not notified.\n"
    let accepted = try await Self.run(kiosk, "transfers", "accept", incoming[0].string)
    #expect(accepted.status == 0 && accepted.output == "Accepted credential1. \(note)")
    #expect(try await Self.state(kiosk, incoming[0]) == "accepted")
    let rejected = try await Self.run(kiosk, "transfers", "reject", "2")
    #expect(rejected.status == 0 && rejected.output == "Rejected credential2. \(note)")
    #expect(try await Self.state(kiosk, incoming[1]) == "rejected")
    #expect(try await Self.run(kiosk, "transfers", "accept", "2").status == 1)
    // An accepted credential that was not fetched is erased, too.
    #expect(try await Self.run(kiosk, "transfers", "accept", "3").status == 0)
    let erased = try await Self.run(kiosk, "transfers", "erase", "3")
    #expect(erased.status == 0 && erased.output == "Erased credential3.\n")
    // The service is notified a moment later that the tool has the credential.
    try await kiosk.await(incoming[2], "ExpiresAt", .uint64(0))
    #expect(try await Self.run(kiosk, "transfers", "get", "3").status == 1)
    #expect(try await Self.run(kiosk, "transfers", "erase", "2").status == 1)
    let full = try ToolRun.earshot("transfers", "get", "3", bus: kiosk.bus.address, into: "/dev/full")
    #expect(try await full.end().status == 1)
  }

  // MARK: The screen

  @Test(
    "`verifier show` and `verifier watch` print a readable QR code, or report that it is too large",
    arguments: [(60, 20), (80, 24), (200, 50)])
  @LoopActor
  func screen(size: (columns: Int, rows: Int)) async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    for words in [["verifier", "show"], ["verifier", "watch", "--accept", "--note", "Any key: another. q: the end."]] {
      let terminal = try PseudoTerminal(columns: size.columns, rows: size.rows)
      defer { terminal.close() }
      let run = try ToolRun(["earshot"] + words, bus: kiosk.bus.address, terminal: terminal.end)
      let isWatch = words.contains("watch")
      try await terminal.await { $0.words.contains(isWatch ? "Waiting for wallets." : "verifier show --uri") }
      if size.columns == 60 {
        #expect(try CodeReader.read(terminal.grid.picture).isEmpty)
        #expect(terminal.words.contains("The QR code does not fit"), "\(terminal.words)")
      } else {
        // The words may appear before the last rows of the code.
        try await terminal.await { try CodeReader.read($0.grid.picture) == [uri] }
      }
      if isWatch {
        let outgoing = try await Self.visit(kiosk, "x")
        try await kiosk.await(outgoing, "State", .string("accepted"))
        try await terminal.await { $0.words.contains("Accepted credential1.") }
        // The next code replaces the used one, and the note stays.
        #expect(terminal.words.hasSuffix("Any key: another. q: the end. q quit"), "\(terminal.words)")
        if size.columns > 60 {
          try await terminal.await { try CodeReader.read($0.grid.picture) == [kiosk.verifier.connectionURI] }
        }
        run.signal(SIGTERM)
      }
      _ = try await run.end()
      #expect(terminal.error == nil)
    }
  }
}
