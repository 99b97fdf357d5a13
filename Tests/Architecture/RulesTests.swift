import Testing

@Suite("Violations of the architecture rules")
struct RulesTests {
  let manifest = Manifest(
    """
    let package = Package(targets: [
      library("CDBus", pkgConfig: "dbus-1", apt: "libdbus-1-dev"),
      room("Base/Bytes"),
      room("Protocols/Tuvali", Every.base),
      room("Protocols/Bitchat", Every.base),
      room("Host/Loop", ["Bytes"]),
      room(
        "Host/DBus", ["Loop", "CDBus"]),
      room("Services/Verifier", Every.base + Every.host + ["Tuvali"]),
      room("Services/Chat/Mesh", ["Loop"]),
      room("Services/Chat/Commands", ["Mesh"]),
      room("Services/Listing", ["Verifier", "Mesh", "Commands"]),
      program("earshotd", Every.host + ["Verifier"]),
      room("Tools/Field", ["Bytes"]),
      tool("measure", ["Field", "Verifier"]),
      support("TestSupport", ["Loop"]),
      tests("Host/LoopTests", Every.base + ["Loop"], vectors: true),
    ])
    enum Every {
      static let base = ["Bytes"]
      static let host: [String] = ["Loop", "DBus"]
    }
    func room(_ path: String) -> Target {}
    """)

  func file(_ room: String, _ text: String) -> [SourceFile] {
    [SourceFile(path: "Sources/\(room)/Sample.swift", text: text)]
  }

  @Test("The parser of Package.swift reads dependency lists held in variables and calls over several lines")
  func manifestIsRead() {
    #expect(
      manifest.rooms.map(\.name) == [
        "CDBus", "Bytes", "Tuvali", "Bitchat", "Loop", "DBus", "Verifier", "Mesh", "Commands", "Listing", "earshotd",
        "Field",
        "measure",
      ])
    #expect(manifest["Mesh"]?.group == "Chat" && manifest["Verifier"]?.group == "Verifier")
    #expect(
      manifest.tests == [
        .init(path: "TestSupport", dependencies: ["Loop"]),
        .init(path: "Host/LoopTests", dependencies: ["Bytes", "Loop"]),
      ])
    #expect(manifest["DBus"] == .init(layer: .host, name: "DBus", dependencies: ["Loop", "CDBus"], group: "DBus"))
    #expect(Set(manifest["Verifier"]?.dependencies ?? []) == ["Bytes", "Loop", "DBus", "Tuvali"])
    #expect(manifest["earshotd"]?.layer == .programs)
    #expect(manifest["measure"] == .init(layer: .tools, name: "measure", dependencies: ["Field", "Verifier"]))
  }

  @Test("An installed program or service that imports a tool target is reported; a tool that imports a service is not")
  func toolsAreApart() {
    for room in ["Programs/earshotd", "Services/Verifier", "Host/DBus", "Protocols/Tuvali", "Base/Bytes"] {
      #expect(Rules.importsGoDown(file(room, "import Field"), manifest).count == 1)
    }
    #expect(Rules.importsGoDown(file("Tools/measure", "import Field\nimport Verifier"), manifest) == [])
    let daemon = Manifest(
      #"""
      room("Tools/Field")
      program("earshotd", ["Field"])
      """#)
    #expect(Rules.dependenciesGoDown(daemon) == ["earshotd of programs depends on Field of tools"])
  }

  @Test(
    "The import parser recognises imports with attributes, access levels and single declarations",
    arguments: [
      "import Glibc", "public import Glibc", "@testable import Glibc", "@_exported import Glibc",
      "import struct Glibc.timespec",
      "@preconcurrency\nimport Glibc", "private import func Glibc.read", "import Bytes; import Glibc", "import `Glibc`",
      "import /* quietly */ Glibc", "#if canImport(Glibc)\nimport Glibc\n#endif", "@_spi(Raw) import Glibc.stdio",
      "\t import\n  Glibc",
    ])
  func importForms(source: String) {
    #expect(SwiftText(source).imports.last?.module == "Glibc")
    #expect(Rules.enginesArePure(file("Protocols/Tuvali", source)).count == 1)
  }

  @Test(
    "A string or comment that looks like an import is not counted as an import",
    arguments: [
      "// import Glibc", "/* /* */ import Glibc */", #"let a = "import Glibc""#, ##"let a = #"" import Glibc"#"##,
      "a.import(Glibc)",
      "let text = \"\"\"\n  import Glibc\n  \"\"\"", "func `import`(Glibc: Int) {}",
    ])
  func notAnImport(source: String) {
    #expect(SwiftText(source).imports == [])
  }

  @Test(
    "A protocol engine that imports a Host target, a clock, a lock or another engine is reported",
    arguments: [
      "Loop", "DBus", "Radio", "Foundation", "FoundationEssentials", "Dispatch", "Glibc", "Synchronization", "Bitchat",
      "CSodium", "Observation",
    ])
  func impureEngine(module: String) {
    #expect(Rules.enginesArePure(file("Protocols/Tuvali", "import Bytes\nimport \(module)")).count == 1)
    #expect(Rules.enginesArePure(file("Host/DBus", "import \(module)")) == [])
  }

  @Test("A protocol engine may import its own wire format target; another protocol's engine may not")
  func wireValues() {
    let text = "import BitchatWire"
    #expect(Rules.enginesArePure(file("Protocols/Bitchat", text)) == [])
    #expect(Rules.enginesArePure(file("Protocols/Tuvali", text)).count == 1)
    #expect(Rules.enginesArePure(file("Protocols/BitchatWire", "import Bitchat")).count == 1)
  }

  @Test(
    "An import of a target in a higher layer is reported",
    arguments: [
      ("Base/Bytes", "Tuvali"), ("Base/Bytes", "Loop"), ("Protocols/Tuvali", "Bitchat"), ("Protocols/Tuvali", "DBus"),
      ("Protocols/Tuvali", "CDBus"), ("Host/Loop", "Tuvali"), ("Host/DBus", "Verifier"), ("Host/DBus", "earshotd"),
      ("Services/Verifier", "CDBus"), ("Services/Verifier", "earshotd"), ("Programs/earshotd", "CDBus"),
    ])
  func upwardImport(room: String, module: String) {
    #expect(Rules.importsGoDown(file(room, "@testable import \(module)"), manifest).count == 1)
  }

  @Test(
    "An import of a target in a lower layer is not reported",
    arguments: [
      ("Protocols/Tuvali", "Bytes"), ("Host/DBus", "CDBus"), ("Host/DBus", "Loop"), ("Services/Verifier", "Tuvali"),
      ("Services/Verifier", "DBus"), ("Programs/earshotd", "Verifier"), ("Base/Bytes", "Glibc"),
    ])
  func downwardImport(room: String, module: String) {
    #expect(Rules.importsGoDown(file(room, "import \(module)"), manifest) == [])
  }

  @Test(
    "A dependency in Package.swift on a higher layer, or on a target declared later, is reported",
    arguments: [
      #"room("Host/Loop", ["DBus"])"# + "\n" + #"room("Host/DBus")"#,
      #"room("Protocols/Tuvali")"# + "\n" + #"room("Host/DBus", ["Tuvali"])"#,
      #"room("Base/Bytes", ["Nowhere"])"#,
    ])
  func upwardDependency(text: String) {
    #expect(Rules.dependenciesGoDown(Manifest(text)).count == 1)
    #expect(Rules.dependenciesGoDown(manifest) == [])
  }

  @Test("An import of a target that is not declared as a dependency is reported")
  func undeclaredImport() {
    #expect(Rules.importsAreDeclared(file("Host/Loop", "import DBus"), manifest).count == 1)
    #expect(Rules.importsAreDeclared(file("Host/Nowhere", "import DBus"), manifest).count == 1)
    #expect(Rules.importsAreDeclared(file("Host/DBus", "import Loop\nimport Glibc"), manifest) == [])
  }

  @Test("A declared dependency that no source file imports is reported, also for test targets")
  func unusedDependency() {
    let one = Manifest(
      #"room("Host/Loop", ["Bytes"])"# + "\n" + #"tests("Host/LoopTests", ["Loop", "Bytes"])"# + "\n"
        + #"program("earshotd", ["Loop"])"#)
    let used = file("Host/Loop", "@_spi(Raw) import Bytes") + file("Programs/earshotd", "import Loop")
    let test = [SourceFile(path: "Tests/Host/LoopTests/Sample.swift", text: "@testable import Loop\nimport Bytes")]
    #expect(Rules.dependenciesAreUsed(used, test, one) == [])
    #expect(Rules.dependenciesAreUsed(file("Host/Loop", "// import Bytes") + [used[1]], test, one).count == 1)
    #expect(Rules.dependenciesAreUsed([used[0]] + file("Programs/earshot", "import Loop"), test, one).count == 1)
    let other = [SourceFile(path: "Tests/Host/LoopTestsToo/Sample.swift", text: "import Loop\nimport Bytes")]
    #expect(Rules.dependenciesAreUsed(used, other, one).count == 2)
  }

  @Test("A service that imports another protocol's service is reported; the target that lists all services is not")
  func servicesApart() {
    #expect(Rules.servicesAreApart(file("Services/Verifier", "import Mesh"), manifest).count == 1)
    #expect(Rules.servicesAreApart(file("Services/Chat/Mesh", "import Verifier"), manifest).count == 1)
    #expect(Rules.servicesAreApart(file("Services/Chat/Mesh", "import Listing"), manifest).count == 1)
    #expect(Rules.servicesAreApart(file("Services/Chat/Commands", "import Mesh\nimport Loop"), manifest) == [])
    #expect(Rules.servicesAreApart(file("Services/Listing", "import Mesh\nimport Verifier"), manifest) == [])
  }

  @Test(
    "A program that imports a service directly instead of the list of services is reported",
    arguments: [
      "import Verifier", "let a: VerifierService", "let path = \"/org/earshot/verifier\"", "case mesh = \"Mesh\"",
    ])
  func programsKnow(source: String) {
    #expect(Rules.programsKnowTheList(file("Programs/earshotd", source), manifest).isEmpty == false)
    #expect(Rules.programsKnowTheList(file("Host/Tool", source), manifest) == [])
    #expect(Rules.programsKnowTheList(file("Programs/earshotd", "import Listing // Verifier"), manifest) == [])
  }

  @Test("A single-protocol daemon may import its own service, but no other service")
  func daemonsKnowTheirOwn() {
    let manifest = Manifest(
      #"room("Services/Presence/Presence")"# + "\n" + #"room("Services/Mesh/Mesh")"# + "\n"
        + #"program("earshot-presenced", ["Presence"])"#)
    let daemon = "Programs/earshot-presenced"
    #expect(Rules.programsKnowTheList(file(daemon, "import Presence"), manifest) == [])
    #expect(Rules.programsKnowTheList(file(daemon, "import Mesh"), manifest).isEmpty == false)
    #expect(Rules.programsKnowTheList(file("Programs/earshotd", "import Presence"), manifest).isEmpty == false)
  }

  @Test("A C library is reported if two targets import it, if the wrong target does, or if none does")
  func twoDoors() {
    let right = file("Host/DBus", "import CDBus")
    #expect(Rules.librariesHaveOneDoor(right, manifest) == [])
    #expect(Rules.librariesHaveOneDoor(right + file("Host/Loop", "public import CDBus"), manifest).count == 1)
    #expect(Rules.librariesHaveOneDoor([], manifest).count == 1)
    let declaredTwice = Manifest(
      #"library("CDBus")"# + "\n" + #"room("Host/A", ["CDBus"])"# + "\n" + #"room("Host/B", ["CDBus"])"#)
    #expect(Rules.librariesHaveOneDoor(right, declaredTwice).count == 1)
  }

  @Test("An import of Foundation is reported everywhere, and FoundationEssentials only outside Host")
  func foundation() {
    #expect(Rules.noFoundation(file("Host/Config", "import Foundation")).count == 1)
    #expect(Rules.noFoundation(file("Programs/earshot", "import FoundationNetworking")).count == 1)
    #expect(Rules.noFoundation(file("Services/Verifier", "import FoundationEssentials")).count == 1)
    #expect(Rules.noFoundation(file("Host/Config", "import FoundationEssentials")) == [])
  }

  @Test(
    "A forced operation that may trap is reported, also inside a string interpolation",
    arguments: [
      "let a = try! b()", "let a = b as! Int", "fatalError(\"no\")", "fatalError()", "let a = b!", "let a = b!.c",
      "let a = b()!", "let a = b[0]!", "var a: Int!", "print(\"\\(b!)\")", "let a = b![0]", "Swift.fatalError()",
    ])
  func traps(source: String) {
    #expect(Rules.nothingTraps(file("Host/DBus", source)).count == 1)
    #expect(Rules.nothingTraps([SourceFile(path: "Tests/Sample.swift", text: source)]) == [])
  }

  @Test(
    "An operation that cannot trap is not reported as a forced operation",
    arguments: [
      "if !a {}", "a != b", "if a, !b {}", "f(!a)", "[!a]", "a !== b", "// b!", "\"try! this!\"", "try? b()",
      "b as? Int",
      "let a = \"\\(c)!\"", "let fatalErrors = 1", "#\"\\(b!)\"#",
    ])
  func harmless(source: String) {
    #expect(Rules.nothingTraps(file("Host/DBus", source)) == [])
  }

  @Test("A folder of Sources that is not a layer is reported, and so is a Swift file in the Python folder")
  func folders() {
    #expect(Rules.foldersAreLayers(file("Host/DBus", "let a = 1")) == [])
    #expect(Rules.foldersAreLayers(file("Extras/DBus", "let a = 1")).count == 1)
    #expect(Rules.foldersAreLayers(file("Check/package", "let a = 1")).count == 1)
    #expect(Rules.foldersAreLayers(file("Python/package", "let a = 1")).count == 1)
    #expect(Rules.foldersAreLayers([SourceFile(path: "Sources/Check/package/a.py", text: "a = 1")]) == [])
  }

  @Test("A call of localtime_r outside the Calendar target is reported")
  func localTime() {
    let source = "import Glibc\nlet a = localtime_r(&seconds, &parts)"
    #expect(Rules.localTimeHasOneRoom(file("Host/DBus", source)).count == 1)
    #expect(Rules.localTimeHasOneRoom(file("Host/Calendar", source)) == [])
    #expect(Rules.localTimeHasOneRoom(file("Host/DBus", "let localtimes = 1 // localtime_r")) == [])
  }

  @Test("A Swift file of 899 lines is not reported; one of 900 lines is")
  func longFile() {
    #expect(Rules.filesAreShort(file("Host/DBus", String(repeating: "\n", count: 899))) == [])
    #expect(Rules.filesAreShort(file("Host/DBus", String(repeating: "\n", count: 900))).count == 1)
  }

  @Test("A test that waits in real time in a suite of virtual-time tests is reported")
  func waitingTests() {
    let manifest = Manifest(
      """
      tests("Host/DBusTests", ["DBus"])
      tests("Host/HCITests", ["HCI"], go: .realTime)
      tests(
        "Host/BlueZTests",
        ["HCI"], go: .bluez)
      tests("Integration", go: .realTime, vectors: true)
      """)
    func broken(_ path: String, _ text: String = "let box = Mailbox<Int>()") -> Int {
      Rules.waitingTestsRunApart([SourceFile(path: "Tests/\(path)", text: text)], manifest).count
    }
    #expect(broken("Host/DBusTests/Sample.swift") == 1)
    #expect(broken("Architecture/Sample.swift", "EventLoop.shared.now") == 1)
    #expect(broken("Services/Sample/HCITests/A.swift") == 1)
    for path in ["Host/HCITests/A.swift", "Host/BlueZTests/A.swift", "Integration/A.swift", "TestSupport/A.swift"] {
      #expect(broken(path) == 0)
    }
    #expect(broken("Host/DBusTests/Sample.swift", "// Mailbox<Int>") == 0)
  }

  @Test("A path of a developer's machine is reported; a text that only contains its letters is not")
  func machinePaths() {
    for home in ["work", "var/tmp", "home", "Users", "root"] {
      let path = "/" + home + "/someone"
      #expect(
        Rules.noMachinePaths(file("Host/DBus", "x\nlet a = \"\(path)\"")) == [
          "Sources/Host/DBus/Sample.swift:2: names /\(home)/"
        ])
      #expect(Rules.noMachinePaths([SourceFile(path: "README.md", text: path)]).count == 1)
      #expect(Rules.noMachinePaths(file("Host/DBus", "https://example.org\(path) $machine\(path) ./a\(path)")) == [])
    }
  }
}
