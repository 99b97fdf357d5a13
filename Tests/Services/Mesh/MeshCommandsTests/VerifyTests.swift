import CommandLine
import Foundation
import Loop
import TestSupport
import Testing

@testable import MeshCommands
@testable import Terminal

@Suite("`earshot mesh verify`", .serialized)
struct VerifyTests {
  init() { EventLoop.shared.runInBackground() }

  private static func terminal(_ columns: Int, _ rows: Int) -> TerminalInfo {
    TerminalInfo(isTerminal: true, columns: columns, rows: rows, environment: { _ in nil })
  }

  @Test("`mesh verify` draws the own verification code with its text below, or prints only the text")
  @LoopActor
  func own() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    let drawn = await stand.run("verify")
    #expect(drawn.code == .ok && drawn.output.contains("█") && drawn.output.contains("\nbitchat://verify?v=1\n"))
    #expect(await stand.run("verify", "--text") == ToolCall(.ok, "bitchat://verify?v=1\n"))
    #expect(await stand.run("verify", "--json") == ToolCall(.ok, "{\n  \"code\": \"bitchat://verify?v=1\"\n}\n"))
  }

  @Test("A real verification code fits into 80 columns; a narrower terminal shows its text and a remark")
  func drawing() throws {
    let text = try PacketVectors.code
    let drawing = try VerifyCommand.drawing(text, Self.terminal(80, 24))
    let lines = drawing.split(separator: "\n").map(String.init)
    let blocks = lines.filter { $0.contains("█") }
    #expect(blocks.count > 30)
    for line in blocks { #expect(line.filter { " ▀▄█".contains($0) }.count <= 80) }
    #expect(lines.contains(text))
    #expect(lines.last?.hasSuffix("rows; this one has 24.") == true)
    let high = try VerifyCommand.drawing(text, Self.terminal(80, 60))
    #expect(high.contains("It is valid for 5 minutes.\n") && !high.contains("this one has"))
    let narrow = try VerifyCommand.drawing(text, Self.terminal(40, 60))
    #expect(!narrow.contains("█") && narrow.contains(text) && narrow.contains("this terminal has 40."))
    #expect(high.contains("Scan the code") && !narrow.contains("Scan the code"))
  }

  @Test("`mesh verify` reads a code from its arguments or standard input despite line breaks")
  @LoopActor
  func read() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    let code = try PacketVectors.code
    let broken = code.enumerated().map { $0.offset % 70 == 69 ? "\($0.element)\r\n" : "\($0.element)" }.joined()
    stand.looksUntilProof = 2
    #expect(await stand.run("verify", code) == ToolCall(.ok, "<alice> (\(MeshStand.alice)) is verified.\n"))
    #expect(await stand.run("verify", "--read", input: broken + "\n").code == .ok)
    #expect(await stand.run("verify", "-", input: code).code == .ok)
    #expect(stand.calls == [String](repeating: "VerifyCode \(code)", count: 3))
  }

  @Test("`mesh verify` does not report a peer as verified if the peer sends no proof in time")
  @LoopActor
  func noProof() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.looksUntilProof = 100
    let code = try PacketVectors.code
    let call = await stand.run("verify", code, "--wait", "0")
    #expect(call.code == .timeout && call.output == "" && call.failure?.hasPrefix("<alice>") == true)
    let json = await stand.run("verify", code, "--wait", "0", "--json")
    #expect(json.code == .timeout && json.output.contains("\"verified\": false"))
    #expect(json.output.contains("\"proof\": \"asked\""))
  }

  @Test(
    "`mesh verify` reports the result of a proof in words and by its exit status",
    arguments: [
      ("wrong", ExitCode.failed, "It is somebody else."), ("noAnswer", .timeout, "it did not answer."),
      ("gone", .failed, "it has left."), ("blocked", .failed, "it is blocked."),
    ])
  @LoopActor
  func outcomes(proof: String, status: ExitCode, words: String) async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    (stand.proof, stand.looksUntilProof) = (proof, 1)
    let code = try PacketVectors.code
    let call = await stand.run("verify", code)
    #expect(call.code == status && call.output == "")
    #expect(call.failure?.contains("<alice> (\(MeshStand.alice)) is not verified") == true)
    #expect(call.failure?.contains(words) == true)
    let json = await stand.run("verify", code, "--json")
    #expect(json.code == status && json.output.contains("\"proof\": \"\(proof)\""))
    #expect(json.output.contains("\"verified\": false"))
  }

  @Test("`mesh verify` reports a peer without a D-Bus object as having left")
  @LoopActor
  func noObject() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.prover = "000000000000dead"
    let call = await stand.run("verify", try PacketVectors.code)
    #expect(call.code == .failed && call.failure?.contains("it has left.") == true)
  }

  @Test("`mesh verify` refuses an invalid code without a call of the service")
  @LoopActor
  func noCode() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    let code = try PacketVectors.code
    for text in [
      "", "hello", "bitchat://verify?v=1", code + "\u{0}",
      code.replacingOccurrences(of: "nick=alice", with: "nick=alica"), String(repeating: "x", count: 100_000),
    ] {
      let call = await stand.run("verify", "--read", input: text)
      let isRefused = call.failure?.hasPrefix("The text is not a verification code: ") == true
      #expect(call.code == .failed && isRefused, "\(call)")
    }
    #expect(await stand.run("verify", "--read", code).code == .usage)
    #expect(stand.calls == [])
  }
}
