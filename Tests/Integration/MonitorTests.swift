import Foundation
import Loop
import TestSupport
import Testing

/// Runs `earshot monitor` as a process while a wallet sends a credential.
@Suite("`earshot monitor`", .serialized)
struct MonitorTests {
  init() { EventLoop.shared.runInBackground() }

  /// Runs a transfer to its end, and returns the lines that a monitor prints meanwhile.
  @LoopActor
  private static func watch(_ options: [String]) async throws -> [String] {
    let kiosk = try await Kiosk(decision: .accept)
    defer { kiosk.close() }
    let monitor = try ToolRun(["earshot", "monitor"] + options, bus: kiosk.bus.address)
    // A running monitor has reported the QR code.
    while !monitor.said.contains("ConnectionUri"), !monitor.said.contains("QR code") {
      kiosk.verifier.stop()
      _ = try await kiosk.start()
    }
    let outgoing = try await kiosk.send(kiosk.verifier.connectionURI, "a credential")
    try await kiosk.await(outgoing, "Live", .bool(false))
    try await monitor.say(options.isEmpty ? "wallet/credential1       The link has ended." : "\"Live\":false")
    monitor.signal(SIGTERM)
    return try await monitor.end().output.split(separator: "\n").map(String.init)
  }

  @Test("Each line of `earshot monitor` has the local time, the object and a sentence")
  @LoopActor
  func words() async throws {
    let lines = try await Self.watch([])
    for line in lines {
      let time = line.prefix(8).split(separator: ":").compactMap { Int($0) }
      #expect(time.count == 3 && line.dropFirst(8).hasPrefix("  "), "\(line)")
      #expect(!line.contains("/org/") && !line.contains("Credential1"), "\(line)")
    }
    for words in [
      "verifier The verifier serves one wallet.", "verifier/credential1 A wallet has connected.",
      "wallet/credential1 The wallet looks for the verifier.", "wallet/credential1 The verifier has accepted",
    ] {
      // The object and the sentence are in columns.
      let shown = lines.map { $0.split(separator: " ").dropFirst().joined(separator: " ") }
      #expect(shown.contains { $0.hasPrefix(words) }, "\(words): \(lines)")
    }
  }

  @Test("Each line of `earshot monitor --json` is a signal with path, interface, name, arguments, time and sentence")
  @LoopActor
  func json() async throws {
    for line in try await Self.watch(["--json"]) {
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      #expect(
        object.map { Set($0.keys) } == ["path", "interface", "signal", "arguments", "time", "sentence"], "\(line)")
    }
  }
}
