import Testing

@Suite("Tests named in the documents")
struct FaultTableTests {
  /// A test's suite and its function.
  struct Name: Hashable, CustomStringConvertible {
    let suite: String
    /// Nil for the complete suite, or for a folder of suites.
    var test: String?

    var description: String { test.map { "\(suite).\($0)" } ?? suite }
  }

  @Test("Every test that a document names exists in Tests")
  func namedTestsExist() throws {
    let there = try Self.tests(below: "Tests")
    let folders = try House.files(below: "Tests", suffix: ".swift").flatMap { $0.path.split(separator: "/").dropLast() }
    let suites = Set(there.map(\.suite)).union(folders.map(String.init))
    for document in try House.files(below: "docs", suffix: ".md") {
      for name in Self.names(in: document.text) {
        let exists = name.test == nil ? suites.contains(name.suite) : there.contains(name)
        #expect(exists, "\(document.path) names \(name)")
      }
    }
  }

  @Test("Every fault in the table of docs/faults.md names a test")
  func rowsNameTests() throws {
    let rows = try Self.table().split(separator: "\n").filter { $0.hasPrefix("|") }
    let faults = rows.filter { !$0.hasPrefix("|---") && !$0.hasPrefix("| fault |") }
    #expect(faults.count > 30)
    for row in faults {
      let last = row.split(separator: "|").last.map(String.init) ?? ""
      #expect(!Self.names(in: last).isEmpty, "no test: \(row)")
    }
  }

  @Test("Every test in Tests/Services/Tuvali/FaultTests is named in the table of docs/faults.md")
  func testsAreInTable() throws {
    let missing = try Self.tests(below: "Tests/Services/Tuvali/FaultTests").subtracting(Self.names(in: Self.table()))
    #expect(missing == [])
  }

  private static func table() throws -> String { try House.read("docs/faults.md").text }

  /// The functions with `@Test` in the suites below a folder.
  private static func tests(below folder: String) throws -> Set<Name> {
    var found: Set<Name> = []
    for file in try House.files(below: folder, suffix: ".swift") {
      var suite = ""
      var isTest = false
      for line in file.text.split(separator: "\n") {
        if let match = line.prefixMatch(of: /(?:@\w+\s+)*(?:final )?(?:struct|class) (\w+)/) { suite = String(match.1) }
        isTest = isTest || line.hasPrefix("  @Test")
        guard isTest, let match = line.prefixMatch(of: /\s\s(?:@\w+ )*func (\w+)/) else { continue }
        found.insert(Name(suite: suite, test: String(match.1)))
        isTest = false
      }
    }
    return found
  }

  /// All `SuiteTests` and `SuiteTests.test` in a text.
  private static func names(in text: String) -> Set<Name> {
    Set(
      text.matches(of: /`(?:\w+Tests\.)??(\w+Tests)(?:\.(\w+))?`/).map {
        Name(suite: String($0.1), test: $0.2.map(String.init))
      })
  }
}
