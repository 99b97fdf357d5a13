import Testing

@Suite("Architecture rules")
struct ArchitectureTests {
  let sources: [SourceFile]
  let tests: [SourceFile]
  let manifest: Manifest

  private static let house = Result {
    (
      try House.files(below: "Sources", suffix: ".swift"), try House.files(below: "Tests", suffix: ".swift"),
      try House.manifest()
    )
  }

  init() throws {
    (sources, tests, manifest) = try Self.house.get()
  }

  @Test("Every room of Package.swift is a folder with Swift or a module map in it, and every folder is a room")
  func roomsAreFolders() throws {
    let folders = Set(
      try House.files(below: "Sources").compactMap { file in file.layer.map { "\($0)/\(file.room ?? "")" } })
    #expect(folders == Set(manifest.rooms.map { "\($0.layer)/\($0.name)" }))
    #expect(Set(manifest.rooms.map(\.layer)) == Set(Layer.allCases))
  }

  @Test("Every folder of Sources is a layer of Swift, or Check, which is Python")
  func foldersAreLayers() throws {
    let files = try House.files(below: "Sources")
    #expect(Rules.foldersAreLayers(files) == [])
    #expect(files.count { $0.path.hasPrefix("Sources/Check/") } > 10)
  }

  @Test("An engine imports Bytes, Common, Compression, Crypto and Noise at most")
  func enginesArePure() { #expect(Rules.enginesArePure(sources) == []) }

  @Test("Imports go down the layers, and never from one protocol to another")
  func importsGoDown() { #expect(Rules.importsGoDown(sources, manifest) == []) }

  @Test("Dependencies in Package.swift go down the layers and up the page")
  func dependenciesGoDown() { #expect(Rules.dependenciesGoDown(manifest) == []) }

  @Test("Every imported room is declared")
  func importsAreDeclared() { #expect(Rules.importsAreDeclared(sources, manifest) == []) }

  @Test("Every declared dependency of a room or test is imported")
  func dependenciesAreUsed() {
    #expect(Rules.dependenciesAreUsed(sources, tests, manifest) == [])
    #expect(manifest.tests.count > 15)
  }

  @Test("Services import no service of another protocol")
  func servicesAreApart() { #expect(Rules.servicesAreApart(sources, manifest) == []) }

  @Test("Programs know services only through the list of services")
  func programsKnowTheList() { #expect(Rules.programsKnowTheList(sources, manifest) == []) }

  @Test("Each C library is imported by exactly one room")
  func librariesHaveOneDoor() { #expect(Rules.librariesHaveOneDoor(sources, manifest) == []) }

  @Test("No source imports Foundation")
  func noFoundation() { #expect(Rules.noFoundation(sources) == []) }

  @Test("No source uses a forced operation or fatalError")
  func nothingTraps() { #expect(Rules.nothingTraps(sources) == []) }

  @Test("Local time is read only in the room Calendar, which follows a change of the time zone")
  func localTimeHasOneRoom() { #expect(Rules.localTimeHasOneRoom(sources) == []) }

  @Test("Every Swift file is shorter than 900 lines")
  func filesAreShort() {
    #expect(Rules.filesAreShort(sources + tests) == [])
  }

  @Test("Tests that wait for the clock run apart from those in virtual time")
  func waitingTestsRunApart() { #expect(Rules.waitingTestsRunApart(tests, manifest) == []) }

  @Test("No test asserts a speed, a processor time, or that something happens within a real second")
  func testsJudgeNoTime() throws {
    #expect(tests.count > 100)
    #expect(Rules.testsJudgeNoTime(tests) == [])
    let guests = try House.files(below: "Tests/EndToEnd", suffix: ".py")
    #expect(guests.count > 10)
    #expect(Rules.guestsJudgeNoTime(guests) == [])
  }

  @Test("No tracked file contains a path of a developer's machine")
  func noMachinePaths() throws {
    let tracked = try House.tracked()
    #expect(Rules.noMachinePaths(tracked) == [])
  }
}
