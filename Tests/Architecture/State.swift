extension Rules {
  /// A file whose extension names stored properties of its type, which another file declares.
  struct StateException: Equatable {
    /// The number of these properties. It only falls.
    let count: Int
    let reason: String

    init(_ count: Int, _ reason: String) { (self.count, self.reason) = (count, reason) }
  }

  private static let parts = "one class in files by subject; each subject is to become a class with private state"
  private static let machine = "one state machine of about 860 lines; its parts share the records that they change"

  /// The files that may name non-public stored properties of a type that another file declares.
  static let stateExceptions: [String: StateException] = [
    "Host/HCI/Kernel/PacketProgram.swift": .init(1, "attaches a filter to the socket's descriptor, which is constant"),
    "Host/Loop/EventLoop+Sources.swift": .init(1, "passes work to the constant worker of the loop"),
    "Host/Sharing/SharedRadio+Advertising.swift": .init(14, parts),
    "Host/Sharing/SharedRadio+Connecting.swift": .init(4, parts),
    "Host/Sharing/SharedRadio+Scanning.swift": .init(7, parts),
    "Host/Sharing/SharedRadio+Serving.swift": .init(3, parts),
    "Host/Sharing/SharedRadio+Sets.swift": .init(6, parts),
    "Host/Tool/GroupCheck.swift": .init(1, "reads the constant time limit of the client for its own call"),
    "Protocols/Bitchat/Peers/PeerTable.swift": .init(4, "derives the ages and ranks of the records of the table"),
    "Protocols/Bitchat/Peers/Reach.swift": .init(1, "reads a value at the index of a link that it has looked up"),
    "Services/Broadcast/Broadcast/BroadcastService+Air.swift": .init(13, parts),
    "Services/Broadcast/Broadcast/BroadcastService+Asking.swift": .init(10, parts),
    "Services/Mesh/Chat/ChatModel+Commands.swift": .init(7, machine),
    "Services/Mesh/Chat/ChatModel+Frame.swift": .init(11, machine),
    "Services/Presence/PresenceRadio/PresenceRadioService+Service.swift": .init(1, "the hosting calls of the class"),
    "Services/Tuvali/Commands/CheckText.swift": .init(1, "reads the constant properties of a view as text"),
    "Services/Tuvali/Verifier/CredentialStorePlan+Disk.swift": .init(9, machine),
    "Services/Tuvali/Verifier/CredentialStorePlan+Time.swift": .init(16, machine),
    "Services/Tuvali/Verifier/VerifierService+Checking.swift": .init(3, parts),
    "Services/Tuvali/Verifier/VerifierService+Settings.swift": .init(1, parts),
    "Services/Tuvali/Verifier/VerifierService+Telling.swift": .init(8, parts),
  ]

  /// No extension names a stored property of its type that is not public, unless it is in the file of the type.
  /// Everyone may read public properties, so an extension may, too. The listed files name as many as the list allows.
  ///
  /// The engine of the mesh is not covered: `stateStaysInItsFile` counts its files.
  static func stateStaysHome(
    _ files: [SourceFile], except listed: [String: StateException] = stateExceptions
  ) -> [String] {
    var homes: [String: Home] = [:]
    let covered = files.filter { file in
      file.swift != nil && !(file.place?.room == "Protocols/Bitchat" && file.place?.folder == engineFolder)
    }
    for file in covered {
      for (type, body) in file.swift?.declarations(of: ["struct", "class", "enum", "actor"]) ?? [] {
        homes["\(file.place?.room ?? "") \(type)"] = Home(path: file.path, properties: SwiftText.hiddenState(body))
      }
    }
    var found: [String: Set<String>] = [:]
    for file in covered {
      for (type, body) in file.swift?.declarations(of: ["extension"]) ?? [] {
        guard let home = homes["\(file.place?.room ?? "") \(type)"], home.path != file.path else { continue }
        let names = SwiftText.uses(of: home.properties, by: body, of: type)
        let path = file.path.split(separator: "/").dropFirst().joined(separator: "/")
        if !names.isEmpty { found[path, default: []].formUnion(names) }
      }
    }
    return Set(found.keys).union(listed.keys).sorted().compactMap { path in
      let (names, allowed) = (found[path, default: []].sorted(), listed[path]?.count ?? 0)
      return names.count == allowed
        ? nil : "Stored properties that \(path) names: \(names.count) \(names); allowed: \(allowed)"
    }
  }

  private struct Home {
    let path: String
    let properties: Set<String>
  }
}

extension SwiftText {
  typealias Body = ArraySlice<Token>

  /// The tokens between the braces of each declaration outside of other declarations, with its full name: `A.B` for
  /// `extension A.B`.
  func declarations(of keywords: Set<String>) -> [(name: String, body: Body)] {
    var found: [(name: String, body: Body)] = []
    var (depth, name, start) = (0, String?.none, 0)
    for (index, token) in tokens.enumerated() {
      switch token.text {
      case "{":
        if depth == 0 { start = index + 1 }
        depth += 1
      case "}":
        depth -= 1
        if depth == 0, let known = name {
          found.append((known, tokens[start..<index]))
          name = nil
        }
      case let text where depth == 0 && keywords.contains(text) && index + 1 < tokens.count:
        // `class func` is not a class.
        guard !["func", "var"].contains(tokens[index + 1].text) else { break }
        var words = [tokens[index + 1].text]
        var next = index + 2
        while next + 1 < tokens.count, tokens[next].text == "." {
          words.append(tokens[next + 1].text)
          next += 2
        }
        name = words.joined(separator: ".")
      default: break
      }
    }
    return found
  }

  private static let modifiers: Set = [
    "private", "fileprivate", "internal", "public", "package", "final", "lazy", "weak", "unowned", "nonisolated",
    "static", "class", "override", "(", "set", "unsafe", ")",
  ]

  /// The stored properties of an instance, variable or constant, that are not public.
  static func hiddenState(_ body: Body) -> Set<String> {
    var properties: Set<String> = []
    var depth = 0
    for index in body.indices {
      switch body[index].text {
      case "{", "(", "[": depth += 1
      case "}", ")", "]": depth -= 1
      case "var", "let":
        let before = body[..<index].reversed().prefix { modifiers.contains($0.text) }.map(\.text)
        guard depth == 0, index + 1 < body.endIndex, !before.contains("static"), !before.contains("class"),
          !before.contains("public")
        else { break }
        if body[index + 1].text == "(" {
          let names = body[(index + 2)...].prefix { $0.text != ")" }.filter(\.isWord)
          properties.formUnion(names.map(\.text))
        } else if body[index].text == "let" || hasStorage(body[(index + 1)...]) {
          properties.insert(body[index + 1].text)
        }
      default: break
      }
    }
    return properties
  }

  /// Whether the variable that begins with its name has an initial value, observers, or no body.
  private static func hasStorage(_ rest: Body) -> Bool {
    let declarations: Set = [
      "var", "let", "func", "init", "deinit", "static", "private", "fileprivate", "public", "struct", "class", "enum",
      "mutating", "subscript", "lazy", "weak", "case", "typealias", "@",
    ]
    var depth = 0
    for (index, token) in zip(rest.indices, rest).dropFirst() {
      switch token.text {
      case "(", "[": depth += 1
      case ")", "]": depth -= 1
      case "{" where depth == 0:
        return index + 1 < rest.endIndex && ["didSet", "willSet"].contains(rest[index + 1].text)
      case let text where depth == 0 && (text == "=" || declarations.contains(text)): return true
      default: break
      }
    }
    return true
  }

  /// The properties that the members of an extension name: as they are, of `self`, or of another value that is
  /// declared to be of the type. A local name hides a property inside its member.
  static func uses(of properties: Set<String>, by body: Body, of type: String) -> Set<String> {
    members(of: body).reduce(into: []) { found, member in
      let own = Set(["self", "Self", "$0"]).union(names(in: member, ofType: [type, "Self"]))
      let hidden = localNames(in: member)
      for index in member.indices where properties.contains(member[index].text) {
        func before(_ count: Int) -> String {
          index - count >= member.startIndex ? member[index - count].text : ""
        }
        let next = index + 1 < member.endIndex ? member[index + 1].text : ""
        let name = member[index].text
        if before(1) == "." {
          let owner = ["?", "!"].contains(before(2)) ? before(3) : before(2)
          if own.contains(owner), owner != "$0" { found.insert(name) }
        } else if isShorthand(before(2), before(1), next) {
          found.insert(name)
        } else if next != ":", !["let", "var", "func", "case", "for", "."].contains(before(1)), !hidden.contains(name) {
          found.insert(name)
        }
      }
    }
  }

  /// `if let name {`, which binds the value of the property of this name.
  private static func isShorthand(_ first: String, _ binding: String, _ next: String) -> Bool {
    ["if", "guard", "while", ","].contains(first) && ["let", "var"].contains(binding)
      && ["{", ",", "else"].contains(next)
  }

  /// The tokens of each member of a type, from its keyword to the next member's.
  private static func members(of body: Body) -> [Body] {
    var starts: [Int] = []
    var depth = 0
    for index in body.indices {
      switch body[index].text {
      case "{", "(", "[": depth += 1
      case "}", ")", "]": depth -= 1
      case "func", "var", "let", "init", "deinit", "subscript", "struct", "class", "enum", "case":
        if depth == 0 { starts.append(index) }
      default: break
      }
    }
    return zip(starts, starts.dropFirst() + [body.endIndex]).map { body[$0..<$1] }
  }

  /// The names in a member that are declared with one of the types: `other: inout Type`.
  private static func names(in member: Body, ofType types: Set<String>) -> Set<String> {
    var found: Set<String> = []
    for index in member.indices.dropFirst() where member[index].text == ":" {
      let rest = member[(index + 1)...].drop { ["inout", "borrowing", "consuming", "@", "escaping"].contains($0.text) }
      if let type = rest.first, types.contains(type.text) { found.insert(member[index - 1].text) }
    }
    return found
  }

  /// The names that a member binds: parameters, constants, variables, and loop and pattern variables.
  private static func localNames(in member: Body) -> Set<String> {
    var found: Set<String> = []
    for index in member.indices.dropFirst().dropLast() {
      let (previous, name, next) = (member[index - 1].text, member[index].text, member[index + 1].text)
      guard member[index].isWord else { continue }
      if ["let", "var", "for"].contains(previous) {
        let first = index - 2 >= member.startIndex ? member[index - 2].text : ""
        if !isShorthand(first, previous, next) { found.insert(name) }
      }
      // A parameter: `name: Type`, or `name` before `in` of a closure.
      if next == ":", previous == "(" || previous == "," || member[index - 1].isWord,
        index + 2 < member.endIndex,
        member[index + 2].text.first?.isUppercase == true
          || ["inout", "any", "some", "@", "[", "("].contains(member[index + 2].text)
      {
        found.insert(name)
      }
      if next == "in", previous == "{" || previous == "," { found.insert(name) }
      if next == ",", previous == "{" { found.insert(name) }
    }
    // `let (one, other) = …`
    for index in member.indices.dropLast() where ["let", "var"].contains(member[index].text) {
      guard member[index + 1].text == "(" else { continue }
      let names = member[(index + 2)...].prefix { $0.text != ")" }.filter(\.isWord)
      found.formUnion(names.map(\.text))
    }
    return found
  }
}
