import Testing

@Suite("The machines of the mesh node")
struct MachinesTests {
  private static let sources = Result { try House.files(below: "Sources/Protocols/Bitchat", suffix: ".swift") }

  private func file(_ path: String, _ text: String) -> SourceFile {
    SourceFile(path: "Sources/Protocols/Bitchat/\(path).swift", text: text)
  }

  @Test("A machine of the mesh node names no type of another machine or of the engine")
  func siblings() throws {
    let files = try Self.sources.get()
    #expect(Rules.machinesNameNoSibling(files) == [])
    for machine in Rules.machines {
      #expect(files.contains { $0.path.hasSuffix("/\(machine)/\(machine).swift") }, "\(machine) has a file of its name")
    }
  }

  @Test("A machine that names a type of another machine or of the engine is reported")
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

  @Test("No extension outside the file of a type names its stored properties, except in the listed files")
  func state() throws {
    let service = try House.files(below: "Sources/\(Rules.serviceRoom)", suffix: ".swift")
    #expect(service.count > 20)
    #expect(Rules.stateStaysInItsFile(try Self.sources.get() + service) == [])
  }

  @Test("An extension that names a stored property of a part of the service is reported")
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

  @Test("Only NodeRole compares the roles of a node")
  func roles() throws {
    let service = try House.files(below: "Sources/\(Rules.serviceRoom)", suffix: ".swift")
    #expect(Rules.rolesAreDefinedOnce(try Self.sources.get() + service) == [])
  }

  @Test("A file that compares a role is reported")
  func plantedRole() {
    func reported(_ text: String) -> Int { Rules.rolesAreDefinedOnce([file("Node/A", text)]).count }
    #expect(reported("let isRelay = settings.role == .relay") == 1)
    #expect(reported("guard role != .mailbox else { return }") == 1)
    #expect(reported("guard role.receives else { return } // role == .relay") == 0)
    #expect(Rules.rolesAreDefinedOnce([file("Intents/NodeRole", "let isRelay = role == .relay")]) == [])
  }

  @Test("Only the translator names dialect S")
  func dialects() throws {
    #expect(Rules.dialectsAreTranslatedOnce(try Self.sources.get()) == [])
  }

  @Test("A file beside the translator that names dialect S is reported")
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

  @Test("Only variables of an instance that are not computed are stored properties")
  func stored() { #expect(pings.swift?.storedProperties == ["Pings": ["waiting", "isSet", "last"]]) }

  @Test(
    "An extension that names a stored property of a type of another file is reported",
    arguments: ["waiting = []", "self.waiting = []", "print(waiting)"])
  func plantedUse(body: String) {
    #expect(uses(body) == [#"Stored properties that Pings+B names: 1 ["waiting"]; listed: 0"#])
  }

  @Test(
    "A computed property, a member of another value, a label and a local name are not uses of stored properties",
    arguments: ["print(count, name)", "other.waiting = 1", "f(waiting: 1)", "let last = 2", "inner = 1"])
  func noUse(body: String) { #expect(uses(body) == []) }

  @Test("An extension of another type may use the same names")
  func otherType() { #expect(uses("waiting = []", of: "Others") == []) }

  @Test("A listed file that names more or fewer stored properties than listed is reported")
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
