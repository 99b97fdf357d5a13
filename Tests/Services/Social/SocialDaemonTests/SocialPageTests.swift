import Foundation
import Loop
import TestSupport
import Testing

/// Runs the commands of `docs/social.md` unchanged.
@Suite("The documentation of the social server", .serialized)
struct SocialPageTests {
  init() { EventLoop.shared.runInBackground() }

  private static let top = #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined()

  /// The lines of the sections that are commands, in their order.
  private static func commands(of sections: [String]) throws -> [String] {
    let page = try String(contentsOfFile: top + "/docs/social.md", encoding: .utf8)
    var section = ""
    var commands: [String] = []
    for line in page.split(separator: "\n", omittingEmptySubsequences: false) {
      if line.hasPrefix("## ") { section = String(line.dropFirst(3)) }
      if line.hasPrefix("    "), sections.contains(section) { commands.append(String(line.dropFirst(4))) }
    }
    return commands
  }

  @Test("Every command on the social server's page succeeds and gives the answer on the page")
  @LoopActor
  func commands() async throws {
    let folder = try ScratchFolder()
    let process = try await SocialProcess("Listen=unix:\(folder.path("asn.sock"))")
    defer { process.close() }
    try await process.start()
    let key = try await process.property("ServiceKey").asString ?? ""
    let nonce = try await process.property("ServiceNonce").asString ?? ""
    let commands = try Self.commands(of: [
      "Users and blobs", "As a client", "Without the daemon", "A walk through the protocol",
    ])
    #expect(commands.count > 50)
    // Two commands run until they are interrupted.
    let endless = commands.filter { $0.hasPrefix("earshot social watch") || $0.hasPrefix("earshot social serve") }
    #expect(endless.count == 2)
    let lines =
      [
        "set -euo pipefail", "cd '\(folder.path)'", "url=unix:\(folder.path("asn.sock")) service=\(key):\(nonce)",
        "earshot() { '\(SocialProcess.program("earshot"))' --bus '\(process.bus.address)' \"$@\"; }",
        "trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR",
      ] + commands.filter { !endless.contains($0) } + [
        "[ \"$(as alice echo hello world)\" = 'hello world' ]",
        "as bob ls 'asn/messages/*' | grep -q \"$message\\|asn\"",
        "cmp message.txt <(as alice cat \"${message:0:16}\")", "[ \"$(wc -c < voucher.bin)\" -eq 64 ]",
        "if as alice cat notes/list; then exit 1; fi",
      ]
    try folder.write(Array(lines.joined(separator: "\n").utf8), to: "page.sh")
    let output = open(folder.path("output"), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(output) }
    let script = try Program(["/bin/bash", folder.path("page.sh")], passing: [1: output, 2: output])
    let status = await withCheckedContinuation { (continuation: CheckedContinuation<Int32?, Never>) in
      SerialWorker("page").offload({ script.wait() }, then: { continuation.resume(returning: $0) })
    }
    let text = try String(contentsOfFile: folder.path("output"), encoding: .utf8)
    #expect(status == 0, "\(text.suffix(2000))")
  }

  @Test("Python's websockets and Chromium, if installed, connect over ws: and wss:")
  @LoopActor
  func otherClients() async throws {
    let folder = try ScratchFolder()
    let output = open(folder.path("output"), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(output) }
    let directory = SocialProcess.program("earshot").split(separator: "/").dropLast().map { "/\($0)" }.joined()
    let script = try Program(
      ["/usr/bin/env", "EARSHOT_BIN=\(directory)", "/bin/bash", Self.top + "/scripts/social-clients"],
      passing: [1: output, 2: output])
    let status = await withCheckedContinuation { (continuation: CheckedContinuation<Int32?, Never>) in
      SerialWorker("clients").offload({ script.wait() }, then: { continuation.resume(returning: $0) })
    }
    let text = try String(contentsOfFile: folder.path("output"), encoding: .utf8)
    #expect(status == 0, "\(text)")
    print(text)
  }
}
