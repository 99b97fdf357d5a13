import Foundation
import Loop
import TestSupport
import Testing

@Suite("Changes of the time zone at run time")
struct TimeZoneTests {
  init() { EventLoop.shared.runInBackground() }

  private static let zones = "/usr/share/zoneinfo/"

  /// Whether a program can have an `/etc/localtime` of its own.
  private static let canChange =
    getuid() == 0 && FileManager.default.fileExists(atPath: zones + "Asia/Kolkata")
    && FileManager.default.fileExists(atPath: "/etc/localtime") && hasNamespaces

  private static var hasNamespaces: Bool {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["unshare", "-m", "sh", "-c", "mount --bind /dev/null \"$(readlink -f /etc/localtime)\""]
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return false }
    process.waitUntilExit()
    return process.terminationStatus == 0
  }

  /// Starts in UTC. When the file exists, changes the zone to that of India, and writes a line.
  private static let script = """
    target=$(readlink -f /etc/localtime)
    mount --bind \(zones)Etc/UTC "$target"
    (until [ -e "$0" ]; do sleep 0.05; done; mount --bind \(zones)Asia/Kolkata "$target"; echo changed) &
    exec env -u TZ "$@"
    """

  @Test(
    "After a change of the system's time zone, messages show times in the new zone",
    .enabled(if: canChange, "it takes root, and a mount namespace"),
    arguments: [["mesh", "log", "--follow"], ["chat", "--lines", "--follow"]])
  @LoopActor
  func change(words: [String]) async throws {
    let mesh = try await StandInMesh()
    defer { mesh.close() }
    let folder = try ScratchFolder()
    let file = folder.path("now")
    let run = try ToolRun(
      ["unshare", "-m", "sh", "-c", Self.script, file, "earshot"] + words, bus: mesh.bus.address)
    defer { run.signal(SIGKILL) }
    mesh.hear(StandInMesh.bob, "first text")
    try await run.say("first text")
    #expect(FileManager.default.createFile(atPath: file, contents: nil))
    try await run.say("changed")
    mesh.hear(StandInMesh.bob, "second text")
    try await run.say("second text")
    func minutes(_ text: String) throws -> Int {
      let line = try #require(run.said.split(separator: "\n").first { $0.contains(text) })
      let clock = try #require(line.firstMatch(of: /([0-9][0-9]):([0-9][0-9])/))
      return (Int(clock.1) ?? 0) * 60 + (Int(clock.2) ?? 0)
    }
    // Both messages have equal times.
    let difference = (try minutes("second text") - minutes("first text") + 1440) % 1440
    #expect(difference == 330, "\(run.said)")
  }
}
