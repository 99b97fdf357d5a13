import CommandLine
import DBus
import Testing

@testable import Tool

@Suite("The explanations of codes by `earshot explain`")
struct ExplainTests {
  private static let part = ToolPart(
    counters: CounterMeanings("verifier", "/org/earshot/verifier", "org.earshot.Verifier1", ["Sessions": "wallets"]),
    codes: [
      CodeMeaning("TVV_TRA_002", aliases: ["0f3c"], kind: "error of a transfer", "Chunks were lost.", remedy: "Move."),
      CodeMeaning("waiting", kind: "delivery state of a message", "The message waits."),
    ])

  private func find(_ word: String) throws(Failure) -> [String] {
    try ExplainCommand([Self.part]).find(word).map(\.kind)
  }

  @Test("`earshot explain` finds a code by its name in any case, and by an alias")
  func found() throws {
    #expect(try find("tvv_tra_002") == ["error of a transfer"])
    #expect(try find("0F3C") == ["error of a transfer"])
    #expect(try find("Sessions") == ["counter of the verifier"])
    let busy = try find("org.earshot.Error.Busy")
    #expect(try find("Busy") == busy)
    #expect(try find("4") == ["exit status of the tool"])
  }

  @Test("`earshot explain` gives all meanings of a code that occurs in several places")
  func several() throws {
    #expect(try find("waiting") == ["state of the radio", "delivery state of a message"])
  }

  @Test("`earshot explain` with an unknown code fails, and names the nearest code")
  func unknown() {
    for (word, nearest) in [("TVV_TRA_003", "TVV_TRA_002"), ("Bussy", "Busy"), ("session", "Sessions")] {
      var failure: Failure?
      do throws(Failure) { _ = try find(word) } catch { failure = error }
      #expect(failure?.code == .failed && failure?.text.contains("Did you mean \(nearest)?") == true, "\(word)")
    }
    var failure: Failure?
    do throws(Failure) { _ = try find("\u{1B}[2Jnothing of the kind") } catch { failure = error }
    #expect(failure?.text.contains("Did you mean") == false && failure?.text.contains("\u{1B}") == false)
  }

  @Test("Every D-Bus error, exit status and radio state has an explanation in whole sentences")
  func house() {
    #expect(CodeMeaning.house.count > DBusError.Name.allCases.count + ExitCode.allCases.count)
    for meaning in CodeMeaning.house {
      #expect(meaning.meaning.hasSuffix("."), "\(meaning.code)")
    }
  }

  @Test("`earshot explain` prints the code, where it occurs, its meaning and the remedy, wrapped to the terminal")
  func text() throws {
    let found = try ExplainCommand([Self.part]).find("TVV_TRA_002")
    #expect(
      ExplainCommand.text(found, width: 80) == """
        TVV_TRA_002 (error of a transfer)
          Chunks were lost.
          What to do: Move.

        """)
  }
}
