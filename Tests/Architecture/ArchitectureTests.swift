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

  @Test(
    "Every target of Package.swift has a folder with Swift or a module map, and every folder in a layer is a target")
  func roomsAreFolders() throws {
    let folders = Set(
      try House.files(below: "Sources").compactMap { file in file.layer.map { "\($0)/\(file.room ?? "")" } })
    #expect(folders == Set(manifest.rooms.map { "\($0.layer)/\($0.name)" }))
    #expect(Set(manifest.rooms.map(\.layer)) == Set(Layer.allCases))
  }

  @Test("Every folder of Sources contains a layer of Swift targets, except Check, which contains Python")
  func foldersAreLayers() throws {
    let files = try House.files(below: "Sources")
    #expect(Rules.foldersAreLayers(files) == [])
    #expect(files.count { $0.path.hasPrefix("Sources/Check/") } > 10)
  }

  @Test("A protocol engine imports at most Bytes, Common, Compression, Crypto and Noise")
  func enginesArePure() { #expect(Rules.enginesArePure(sources) == []) }

  @Test("A target imports only targets of its own or lower layers, and no protocol imports another protocol")
  func importsGoDown() { #expect(Rules.importsGoDown(sources, manifest) == []) }

  @Test("A dependency in Package.swift is in the same or a lower layer, and is declared earlier")
  func dependenciesGoDown() { #expect(Rules.dependenciesGoDown(manifest) == []) }

  @Test("Every target that a source file imports is declared as a dependency in Package.swift")
  func importsAreDeclared() { #expect(Rules.importsAreDeclared(sources, manifest) == []) }

  @Test("Every declared dependency of a target or test target is imported by one of its source files")
  func dependenciesAreUsed() {
    #expect(Rules.dependenciesAreUsed(sources, tests, manifest) == [])
    #expect(manifest.tests.count > 15)
  }

  @Test("A service does not import the service of another protocol")
  func servicesAreApart() { #expect(Rules.servicesAreApart(sources, manifest) == []) }

  @Test("Installed programs import services only through the target that lists all services")
  func programsKnowTheList() { #expect(Rules.programsKnowTheList(sources, manifest) == []) }

  @Test("Each C library is imported by exactly one target")
  func librariesHaveOneDoor() { #expect(Rules.librariesHaveOneDoor(sources, manifest) == []) }

  @Test("No source imports Foundation")
  func noFoundation() { #expect(Rules.noFoundation(sources) == []) }

  @Test("No source file uses a forced unwrap, a forced try, a forced cast or fatalError")
  func nothingTraps() { #expect(Rules.nothingTraps(sources) == []) }

  @Test("Only the Calendar target converts times to local time, so that changes of the time zone are followed")
  func localTimeHasOneRoom() { #expect(Rules.localTimeHasOneRoom(sources) == []) }

  @Test("Every Swift file is shorter than 900 lines")
  func filesAreShort() {
    #expect(Rules.filesAreShort(sources + tests) == [])
  }

  @Test("Tests that wait in real time are in different suites from tests in virtual time")
  func waitingTestsRunApart() { #expect(Rules.waitingTestsRunApart(tests, manifest) == []) }

  @Test("No test asserts a speed, a processor time, or that an operation ends within a given real time")
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
