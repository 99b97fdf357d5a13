import Testing

@Suite("Stored properties of a type in several files")
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

  @Test("No extension outside the file of a type names its non-public stored properties, except in the listed files")
  func state() throws {
    let files = try House.files(below: "Sources", suffix: ".swift")
    #expect(files.count > 500)
    #expect(Rules.stateStaysHome(files) == [])
  }

  @Test("Each exception gives a reason")
  func reasons() {
    for (path, exception) in Rules.stateExceptions { #expect(exception.reason.count > 20, "\(path)") }
  }

  @Test("Variables and constants of an instance that are not public are hidden state")
  func hidden() throws {
    let body = try #require(bus.swift?.declarations(of: ["class"]).first?.body)
    #expect(SwiftText.hiddenState(body) == ["waiting", "limit", "isOpen", "first", "second", "timer"])
  }

  @Test(
    "An extension in another file that names a hidden property is reported",
    arguments: [
      "func b() { waiting = [] }", "func b() { print(self.waiting) }", "func b() { waiting.removeAll() }",
      "func b() { call { [weak self] in self?.waiting = [] } }", "func b(_ other: Bus) { other.waiting = [] }",
      "static func < (one: Self, two: Self) -> Bool { one.waiting < two }", "var b: [Int] { waiting }",
      "func b(_ waiting: Int) { self.waiting = [waiting] }", "func b() { if let waiting { print(1) } }",
      "func c(_ waiting: Int) {} func b() { waiting = [] }",
    ])
  func planted(member: String) { #expect(reported(member) == message(1, #""waiting""#)) }

  @Test("A constant is hidden state, too")
  func constant() {
    #expect(reported("func b() -> Int { limit + second }") == message(2, #""limit", "second""#))
  }

  @Test(
    "A public property, a member of another value, a label and a local name are not reported",
    arguments: [
      "func b() { print(name, count) }", "func b() { other.waiting = 1 }", "func b() { f(waiting: 1) }",
      "func b() { let waiting = 1; print(waiting) }", "func b(waiting: Int) { print(waiting) }",
      "func b() { list.map { waiting in waiting + 1 } }", "func b() { for waiting in list { print(waiting) } }",
      "func b() { print(isEmpty, inner, shared) }", "func b() { let (waiting, two) = f(); print(waiting) }",
    ])
  func noUse(member: String) { #expect(reported(member) == []) }

  @Test("An extension of another type, and one of a type nested in it, may use the same names")
  func otherType() {
    #expect(reported("func b() { waiting = [] }", of: "Others") == [])
    #expect(reported("func b() { waiting = [] }", of: "Bus.Entry") == [])
  }

  @Test("A listed file that names more or fewer properties than listed is reported")
  func ratchet() {
    func reported(_ member: String, _ count: Int) -> [String] {
      self.reported(member, except: ["Host/Bus/Bus+B.swift": .init(count, "a reason")])
    }
    #expect(reported("func b() { waiting = [limit] }", 2) == [])
    #expect(reported("func b() { waiting = [limit] }", 1) == message(2, #""limit", "waiting""#, allowed: 1))
    #expect(reported("func b() {}", 1) == message(0, "", allowed: 1))
  }
}
