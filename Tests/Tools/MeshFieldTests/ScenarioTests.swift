import TestSupport
import Testing

@testable import MeshField

@Suite("Simulation scenario files")
struct ScenarioTests {
  private func mistakes(_ text: String) throws -> [String] {
    let folder = try ScratchFolder()
    try folder.write(Array(text.utf8), to: "scenario.conf")
    do throws(Scenario.Mistake) {
      _ = try Scenario(file: folder.path("scenario.conf"))
      return []
    } catch {
      return error.sentences
    }
  }

  @Test("A key in a scenario file overrides its default")
  func reads() throws {
    let folder = try ScratchFolder()
    let text = "[Field]\nNodes=30\nDuration=2min\n[Air]\nLatency=10ms 20ms\n[People]\nApps=40\n[Aim]\nWithinFive=980\n"
    try folder.write(Array(text.utf8), to: "scenario.conf")
    let scenario = try Scenario(file: folder.path("scenario.conf"))
    #expect(scenario.field.nodes == 30)
    #expect(scenario.field.duration == .seconds(120))
    #expect(scenario.air.latency == .milliseconds(10)...(.milliseconds(20)))
    #expect(scenario.people.apps == 40)
    #expect(scenario.aim.withinFive == 980 && scenario.aim.withinSeven == 0)
    #expect(scenario.air.loss == Scenario().air.loss)
  }

  @Test(
    "A mistake in a scenario file is reported with its line number",
    arguments: [
      ("[Field]\nNodez=30\n", "Nodez"), ("[Field]\nNodes=1\n", "Nodes=1"), ("[Felt]\nNodes=30\n", "[Felt]"),
      ("[Air]\nLoss=200\n", "Loss=200"),
    ])
  func names(text: String, word: String) throws {
    let found = try mistakes(text)
    #expect(found.count == 1)
    #expect(found.first?.contains(word) == true)
    #expect(found.first?.contains(":") == true)
  }

  @Test("Contradicting keys in a scenario file are reported")
  func contradictions() throws {
    #expect(try mistakes("[People]\nApps=60\nSilent=50\n").first?.contains("Apps and Silent") == true)
    #expect(try mistakes("[Field]\nDuration=30s\n[Talk]\nFrom=30s\n").first?.contains("Talk.From") == true)
    #expect(try mistakes("[Field]\nLinks=3\nFewestLinks=5\n").first?.contains("FewestLinks") == true)
  }

  @Test("A missing scenario file is reported")
  func missing() throws {
    #expect(throws: Scenario.Mistake.self) { _ = try Scenario(file: "/nonexistent/scenario.conf") }
  }

  @Test("The printed list of scenario keys is itself a valid scenario with all defaults")
  func keys() throws {
    #expect(try mistakes(Scenario.keysText) == [])
    #expect(Scenario.keysText.contains("#Nodes=1000"))
  }
}
