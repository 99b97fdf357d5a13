import Foundation
import Loop
import TestSupport
import Testing

/// Runs the README's instructions for a program.
@Suite("Example programs", .serialized)
struct ExampleTests {
  init() { EventLoop.shared.runInBackground() }

  private static let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  @Test(
    "The README quotes the example programs unchanged", arguments: [("receive.py", "python"), ("receive.sh", "sh")])
  func quoted(name: String, language: String) throws {
    let example = try String(contentsOf: Self.top.appendingPathComponent("examples/\(name)"), encoding: .utf8)
    let readme = try String(contentsOf: Self.top.appendingPathComponent("README.md"), encoding: .utf8)
    #expect(readme.contains("```\(language)\n\(example)```\n"))
  }

  /// Returns the indented lines of the README after the paragraph that begins with these words.
  private static func commands(after words: String) throws -> String {
    let readme = try String(contentsOf: top.appendingPathComponent("README.md"), encoding: .utf8)
    let paragraphs = readme.components(separatedBy: "\n\n")
    let place = try #require(paragraphs.firstIndex { $0.hasPrefix(words) })
    return paragraphs[place + 1].split(separator: "\n").map { $0.dropFirst(4) }.joined(separator: "\n")
  }

  @Test("The dbus-send commands of the README work as printed for any transfer number")
  @LoopActor
  func pasted() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let start = try Self.commands(after: "By hand, with `dbus-send`.")
    let started = try await ToolRun(["/bin/sh", "-ec", start], bus: kiosk.bus.address).end()
    #expect(started.status == 0 && started.output.contains("\"waiting\""), "\(started)")
    // The number of a judged transfer is smaller than that of the waiting one.
    let judged = try await kiosk.send(kiosk.verifier.connectionURI, "an older credential")
    _ = try await kiosk.call(try await kiosk.received.next(), "org.earshot.Credential1", "Reject")
    try await kiosk.await(judged, "Live", .bool(false))
    let outgoing = try await kiosk.send(kiosk.verifier.connectionURI, "the credential")
    _ = try await kiosk.received.next()
    let take = try Self.commands(after: "When a wallet has sent its credential")
    let taken = try await ToolRun(["/bin/sh", "-ec", take], bus: kiosk.bus.address).end()
    #expect(taken.status == 0 && taken.output.contains("\"the credential\""), "\(taken)")
    try await kiosk.await(outgoing, "State", .string("accepted"))
  }

  @Test(
    "Each example program fetches, stores and judges credentials that arrived before and after its start",
    arguments: [("receive.py", "/usr/bin/python3"), ("receive.sh", "/bin/sh")])
  @LoopActor
  func receive(name: String, interpreter: String) async throws {
    let kiosk = try await Kiosk(checker: WordChecker("credential"))
    defer { kiosk.close() }
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    // An existing file is not overwritten.
    try "older".write(to: folder.appendingPathComponent("credential3"), atomically: true, encoding: .utf8)

    let waiting = try await kiosk.send(try await kiosk.start(), "a credential that waits")
    _ = try await kiosk.received.next()
    let example = try ToolRun(
      [interpreter, Self.top.appendingPathComponent("examples/\(name)").path, folder.path], bus: kiosk.bus.address)
    try await kiosk.await(waiting, "State", .string("accepted"))
    if name == "receive.py" { try await example.say("listening") }
    try await kiosk.await("/org/earshot/verifier/credential1", "Live", .bool(false))
    for (text, state) in [("something else", "rejected"), ("{\"credential\":\"ü\"}", "accepted")] {
      let outgoing = try await kiosk.send(kiosk.verifier.connectionURI, text)
      try await kiosk.await(outgoing, "State", .string(state))
      try await kiosk.await(try await kiosk.received.next(), "Live", .bool(false))
    }

    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    let files = try names.reduce(into: [:]) {
      $0[$1] = try String(contentsOf: folder.appendingPathComponent($1), encoding: .utf8)
    }
    #expect(
      files == [
        "credential1": "a credential that waits", "credential2": "something else", "credential3": "older",
        "credential3-2": "{\"credential\":\"ü\"}",
      ])
    // Without its bus the program exits with a failure, and so do the programs that it started.
    kiosk.close()
    let result = try await example.end()
    #expect(result.status != 0, "\(result)")
  }
}
