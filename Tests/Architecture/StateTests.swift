import Testing

@Suite("Stored properties of a type whose extensions are in several files")
struct StateTests {
  private func file(_ name: String, _ text: String) -> SourceFile {
    SourceFile(path: "Sources/Host/Bus/\(name).swift", text: text)
  }

  private var bus: SourceFile {
    file(
      "Bus",
      """
      public final class Bus {
        private(set) var waiting: [Int] = []
        let limit: Int
        var isOpen: Bool { didSet { waiting = [] } }
        let (first, second) = (1, 2)
        lazy var timer = 3
        public let name: String
        public private(set) var count = 0
        static var shared = 4
        var isEmpty: Bool { waiting.isEmpty }
        func a() { var inner = 1 }
      }
      """)
  }

  private func reported(
    _ member: String, of type: String = "Bus", except listed: [String: Rules.StateException] = [:]
  ) -> [String] {
    let other = file("Bus+B", "extension \(type) { \(member) }")
    return Rules.stateStaysHome([bus, other], except: listed)
  }

  private func message(_ count: Int, _ names: String, allowed: Int = 0) -> [String] {
    ["Stored properties that Host/Bus/Bus+B.swift names: \(count) [\(names)]; allowed: \(allowed)"]
  }

  @Test("Only listed extensions outside a type's file name non-public stored properties of the type")
  func state() throws {
    let files = try House.files(below: "Sources", suffix: ".swift")
    #expect(files.count > 500)
    #expect(Rules.stateStaysHome(files) == [])
  }

  @Test("Each listed exception to the rule about stored properties gives a reason")
  func reasons() {
    for (path, exception) in Rules.stateExceptions { #expect(exception.reason.count > 20, "\(path)") }
  }

  @Test("Non-public instance variables and constants count as hidden stored properties")
  func hidden() throws {
    let body = try #require(bus.swift?.declarations(of: ["class"]).first?.body)
    #expect(SwiftText.hiddenState(body) == ["waiting", "limit", "isOpen", "first", "second", "timer"])
  }

  @Test(
    "An extension in another file that names a hidden stored property is reported",
    arguments: [
      "func b() { waiting = [] }", "func b() { print(self.waiting) }", "func b() { waiting.removeAll() }",
      "func b() { call { [weak self] in self?.waiting = [] } }", "func b(_ other: Bus) { other.waiting = [] }",
      "static func < (one: Self, two: Self) -> Bool { one.waiting < two }", "var b: [Int] { waiting }",
      "func b(_ waiting: Int) { self.waiting = [waiting] }", "func b() { if let waiting { print(1) } }",
      "func c(_ waiting: Int) {} func b() { waiting = [] }",
    ])
  func planted(member: String) { #expect(reported(member) == message(1, #""waiting""#)) }

  @Test("A `let` property counts as a hidden stored property like a `var` property")
  func constant() {
    #expect(reported("func b() -> Int { limit + second }") == message(2, #""limit", "second""#))
  }

  @Test(
    "Public properties, members of other values, labels and local names are not reported as hidden properties",
    arguments: [
      "func b() { print(name, count) }", "func b() { other.waiting = 1 }", "func b() { f(waiting: 1) }",
      "func b() { let waiting = 1; print(waiting) }", "func b(waiting: Int) { print(waiting) }",
      "func b() { list.map { waiting in waiting + 1 } }", "func b() { for waiting in list { print(waiting) } }",
      "func b() { print(isEmpty, inner, shared) }", "func b() { let (waiting, two) = f(); print(waiting) }",
    ])
  func noUse(member: String) { #expect(reported(member) == []) }

  @Test("Extensions of unrelated types, and of types nested in the type, may use the names of its hidden properties")
  func otherType() {
    #expect(reported("func b() { waiting = [] }", of: "Others") == [])
    #expect(reported("func b() { waiting = [] }", of: "Bus.Entry") == [])
  }

  @Test("A listed file that names more or fewer hidden properties than its list entry allows is reported")
  func ratchet() {
    func reported(_ member: String, _ count: Int) -> [String] {
      self.reported(member, except: ["Host/Bus/Bus+B.swift": .init(count, "a reason")])
    }
    #expect(reported("func b() { waiting = [limit] }", 2) == [])
    #expect(reported("func b() { waiting = [limit] }", 1) == message(2, #""limit", "waiting""#, allowed: 1))
    #expect(reported("func b() {}", 1) == message(0, "", allowed: 1))
  }
}
