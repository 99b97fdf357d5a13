import Testing

@Suite("Separation of the mesh engine's machines")
struct MachinesTests {
  private static let sources = Result { try House.files(below: "Sources/Protocols/Bitchat", suffix: ".swift") }

  private func file(_ path: String, _ text: String) -> SourceFile {
    SourceFile(path: "Sources/Protocols/Bitchat/\(path).swift", text: text)
  }

  @Test("No machine of the mesh engine names a type of another machine or of the engine")
  func siblings() throws {
    let files = try Self.sources.get()
    #expect(Rules.machinesNameNoSibling(files) == [])
    for machine in Rules.machines {
      #expect(files.contains { $0.path.hasSuffix("/\(machine)/\(machine).swift") }, "\(machine) has a file of its name")
    }
  }

  @Test("A machine of the mesh engine that names a type of another machine or of the engine is reported")
  func plantedSibling() {
    func reported(_ text: String) -> [String] {
      Rules.machinesNameNoSibling([
        file("Pings/Pings", text), file("Challenges/A", "struct Challenges { enum Kind {} }"),
        file("Node/MeshEngine", "struct MeshEngine { var pings: Pings; var challenges: Challenges }"),
        file("Packets/Packet", "struct Packet {}"),
      ])
    }
    let pings = "Sources/Protocols/Bitchat/Pings/Pings.swift: Pings"
    #expect(reported("struct Pings { var other: Challenges? }") == ["\(pings) names Challenges of Challenges"])
    #expect(
      reported("struct Pings { func a(_ engine: inout MeshEngine) {} }") == ["\(pings) names MeshEngine of Node"])
    #expect(reported("struct Pings { let a = MeshEngine.Action.self; let b = Challenges() }").count == 2)
    #expect(reported("struct Pings { let packet: Packet } // Challenges") == [])
  }

  @Test("In the mesh engine only listed extensions outside a type's file name its stored properties")
  func state() throws {
    let service = try House.files(below: "Sources/\(Rules.serviceRoom)", suffix: ".swift")
    #expect(service.count > 20)
    #expect(Rules.stateStaysInItsFile(try Self.sources.get() + service) == [])
  }

  @Test("An extension in another file that names a stored property of a MeshService type is reported")
  func plantedServiceUse() {
    func part(_ path: String, _ text: String) -> SourceFile {
      SourceFile(path: "Sources/\(Rules.serviceRoom)/\(path).swift", text: text)
    }
    let links = part("Links/MeshLinks", "final class MeshLinks { private(set) var ports: [Int] = [] }")
    let more = part("Links/MeshLinks+More", "extension MeshLinks { var count: Int { ports.count } }")
    #expect(
      Rules.stateStaysInItsFile([links, more], except: [:]) == [
        #"Stored properties that MeshLinks+More names: 1 ["ports"]; listed: 0"#
      ])
  }

  @Test("Only the file NodeRole.swift compares values of NodeRole")
  func roles() throws {
    let service = try House.files(below: "Sources/\(Rules.serviceRoom)", suffix: ".swift")
    #expect(Rules.rolesAreDefinedOnce(try Self.sources.get() + service) == [])
  }

  @Test("A file that compares values of NodeRole outside NodeRole.swift is reported")
  func plantedRole() {
    func reported(_ text: String) -> Int { Rules.rolesAreDefinedOnce([file("Node/A", text)]).count }
    #expect(reported("let isRelay = settings.role == .relay") == 1)
    #expect(reported("guard role != .mailbox else { return }") == 1)
    #expect(reported("guard role.receives else { return } // role == .relay") == 0)
    #expect(Rules.rolesAreDefinedOnce([file("Intents/NodeRole", "let isRelay = role == .relay")]) == [])
  }

  @Test("Only the dialect translator of the mesh names dialect S")
  func dialects() throws {
    #expect(Rules.dialectsAreTranslatedOnce(try Self.sources.get()) == [])
  }

  @Test("A file other than the dialect translator that names dialect S is reported")
  func plantedDialect() {
    func reported(_ path: String, _ text: String) -> Int { Rules.dialectsAreTranslatedOnce([file(path, text)]).count }
    #expect(reported("RelayQueue/A", "if dialect == .seed { return }") == 1)
    #expect(reported("Node/A", "let isSeed = SeedNumbers.seed.message == type") == 3)
    #expect(reported("Node/A", "let pause = dialect.pause // .seed") == 0)
    #expect(reported("Translator/Translator", "if dialect == .seed { return }") == 0)
  }

  private var pings: SourceFile {
    file(
      "Pings/Pings",
      """
      struct Pings {
        private var waiting: [Int] = []
        var isSet: Bool { didSet { waiting = [] } }
        var count: Int { waiting.count }
        static var limit = 3
        func a() { var inner = 1 }
        var last: Int?
        let name: String
      }
      """)
  }

  private func uses(
    _ body: String, of type: String = "Pings", except listed: [String: Int] = [:]
  ) -> [String] {
    let other = file("Pings/Pings+B", "extension \(type) { func b() { \(body) } }")
    return Rules.stateStaysInItsFile([pings, other], except: listed)
  }

  @Test("Static and computed properties of a type are not counted as its stored properties")
  func stored() { #expect(pings.swift?.storedProperties == ["Pings": ["waiting", "isSet", "last"]]) }

  @Test(
    "An extension that names a stored property of a type declared in another file is reported",
    arguments: ["waiting = []", "self.waiting = []", "print(waiting)"])
  func plantedUse(body: String) {
    #expect(uses(body) == [#"Stored properties that Pings+B names: 1 ["waiting"]; listed: 0"#])
  }

  @Test(
    "Computed properties, members of other values, labels and local names do not count as uses of stored properties",
    arguments: ["print(count, name)", "other.waiting = 1", "f(waiting: 1)", "let last = 2", "inner = 1"])
  func noUse(body: String) { #expect(uses(body) == []) }

  @Test("An extension may use a name that is a stored property of an unrelated type")
  func otherType() { #expect(uses("waiting = []", of: "Others") == []) }

  @Test("A listed file that names more or fewer stored properties than its list entry allows is reported")
  func ratchet() {
    #expect(uses("waiting = []; last = 1", except: ["Pings+B": 2]) == [])
    #expect(
      uses("waiting = []; last = 1", except: ["Pings+B": 1]) == [
        #"Stored properties that Pings+B names: 2 ["last", "waiting"]; listed: 1"#
      ])
    #expect(
      uses("waiting = []", except: ["Pings+B": 2]) == [
        #"Stored properties that Pings+B names: 1 ["waiting"]; listed: 2"#
      ])
    #expect(
      uses("count()", except: ["Pings+B": 1]) == ["Stored properties that Pings+B names: 0 []; listed: 1"])
  }
}
