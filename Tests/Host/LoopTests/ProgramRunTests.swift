import Loop
import Testing

@Suite("Runs of other programs", .timeLimit(.minutes(10)))
struct ProgramRunTests {
  private func output(_ script: String, upTo maximum: Int = 1000, within limit: Duration = .seconds(300)) -> String? {
    ProgramRun.output(of: "sh", ["-c", script], upTo: maximum, within: limit)
      .map { String(decoding: $0, as: UTF8.self) }
  }

  @Test("The output of a program is its standard output, without its standard error, and it has an empty input")
  func standardOutput() {
    #expect(output("cat; echo one; echo two >&2") == "one\n")
    #expect(output("true") == "")
  }

  @Test("A program that fails, or cannot be started, has no output")
  func failures() {
    #expect(output("echo one; exit 1") == nil)
    #expect(output("echo one; kill -9 $$") == nil)
    #expect(ProgramRun.output(of: "/nowhere/at/all", [], upTo: 1000, within: .seconds(300)) == nil)
  }

  @Test("A program that hangs is killed at its time limit, also if it has closed its output")
  func hangs() {
    #expect(output("echo one; exec sleep 3600", within: .milliseconds(100)) == nil)
    #expect(output("exec >&-; exec sleep 3600", within: .milliseconds(100)) == nil)
  }

  @Test("A program that writes more than the maximum is killed")
  func tooLarge() {
    #expect(output("echo one", upTo: 4) == "one\n")
    #expect(output("echo one", upTo: 3) == nil)
    #expect(output("while :; do echo one; done") == nil)
  }
}
