import CommandLine
import Foundation
import Loop
import TestSupport
import Testing

@Suite("`earshot check` with a checker socket", .serialized)
struct CheckToolTests {
  init() { EventLoop.shared.runInBackground() }

  /// Runs the tool on a credential with a stand-in for the checker.
  ///
  /// - Parameter word: the word of the verdict; nil for a checker that never replies.
  @LoopActor
  private static func check(_ word: String?, _ options: [String] = []) async throws -> ToolRun.Result {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("check-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appendingPathComponent("credential").path
    let socket = folder.appendingPathComponent("socket").path
    try String(repeating: "{a credential}", count: 100).write(toFile: file, atomically: true, encoding: .utf8)
    let checker = try StandInCheckerSocket(at: socket, word: word)
    defer { checker.close() }
    return try await ToolRun(["earshot", "check", file, "--socket", socket] + options, bus: "unix:path=/nowhere").end()
  }

  @Test(
    "The exit status and first line of `earshot check` state the verdict",
    arguments: [("valid", 0), ("invalid", 1), ("revoked", 1), ("undecided", 6)])
  func verdicts(word: String, status: Int32) async throws {
    let result = try await Self.check(word)
    #expect(result.status == status && result.output.hasPrefix(word), "\(result)")
  }

  @Test("`earshot check --json` prints the verdict of the checker")
  func json() async throws {
    let result = try await Self.check("valid", ["--json"])
    let verdict = try JSONReader.read(Array(result.output.utf8))
    #expect(verdict["verdict"] == "valid" && verdict["reasons"] == .array([]))
    #expect(verdict["issuer"] == "Residents Office" && verdict["claims"] != nil)
  }

  @Test("If the checker does not answer within --timeout, `earshot check` reports the credential as undecided")
  func late() async throws {
    let result = try await Self.check(nil, ["--timeout", "1", "--json"])
    let verdict = try JSONReader.read(Array(result.output.utf8))
    let reason: [JSONValue.Member] = [
      .init("code", "checkerTimedOut"), .init("sentence", "The checker gave no verdict within 1 s."),
    ]
    #expect(verdict["verdict"] == "undecided" && verdict["reasons"] == .array([.object(reason)]), "\(result)")
  }
}
