extension Rules {
  /// The machines of the mesh node, each in the folder of its name. A folder that is not listed is not a machine yet,
  /// or holds values that several machines use.
  static let machines: Set = [
    "Challenges", "Courier", "DirectMessages", "FileTransfers", "GossipSync", "Neighbourhood", "PacketGate",
    "Pings", "RelayQueue", "Translator", "Transmitter", "Uplink",
  ]
  /// The folder of the engine, which calls the machines.
  static let engineFolder = "Node"
  /// The service of the mesh node.
  static let serviceRoom = "Services/Mesh/Mesh"
  /// The files that still name stored properties of the engine, each with the number of these properties. The numbers
  /// only fall; a file leaves the list when it names none.
  static let unconverted = [
    "MeshEngine+Announcing": 14, "MeshEngine+Courier": 8, "MeshEngine+Files": 13, "MeshEngine+Private": 13,
    "MeshEngine+Receiving": 12, "MeshEngine+Relaying": 7, "MeshEngine+Sending": 8, "MeshEngine+Translating": 6,
  ]

  /// A machine of the mesh node names no type of another machine or of the engine.
  static func machinesNameNoSibling(_ files: [SourceFile]) -> [String] {
    let own = ofMachinesAndEngine(files)
    let uses = FileUses(own).uses
    return own.indices.filter { own[$0].place?.folder != engineFolder }.flatMap { index -> [String] in
      let machine = own[index].place?.folder ?? ""
      return uses[index].sorted { $0.key < $1.key }.compactMap { other, type -> String? in
        guard let folder = own[other].place?.folder, folder != machine else { return nil }
        return "\(own[index].path): \(machine) names \(type) of \(folder)"
      }
    }
  }

  /// In the mesh node and its service, no extension of a type names a stored property of the type, unless it is in the
  /// file of the type. Each listed file names as many as the list allows.
  static func stateStaysInItsFile(_ files: [SourceFile], except listed: [String: Int] = unconverted) -> [String] {
    let service = files.filter { $0.swift != nil && $0.place?.room == serviceRoom }
    let found = stateUses(ofMachinesAndEngine(files) + service)
    return Set(found.keys).union(listed.keys).sorted().compactMap { file -> String? in
      let (names, allowed) = (found[file, default: []].sorted(), listed[file] ?? 0)
      return names.count == allowed
        ? nil : "Stored properties that \(file) names: \(names.count) \(names); listed: \(allowed)"
    }
  }

  /// The stored properties of a type that its extensions in other files name, by the name of the file.
  private static func stateUses(_ files: [SourceFile]) -> [String: Set<String>] {
    var homes: [String: (path: String, properties: Set<String>)] = [:]
    for file in files {
      for (type, properties) in file.swift?.storedProperties ?? [:] { homes[type] = (file.path, properties) }
    }
    var found: [String: Set<String>] = [:]
    for file in files {
      let name = file.path.split(separator: "/").last.map { String($0.dropLast(".swift".count)) } ?? file.path
      for (type, body) in file.swift?.bodies(of: ["extension"]) ?? [] {
        guard let home = homes[type], home.path != file.path else { continue }
        let names = body.indices.filter { isUse(at: $0, in: body, of: home.properties) }.map { body[$0].text }
        if !names.isEmpty { found[name, default: []].formUnion(names) }
      }
    }
    return found
  }

  /// Whether the token is a property of `self`: not an argument label, a declared name, or a member of another value.
  private static func isUse(at index: Int, in body: ArraySlice<SwiftText.Token>, of properties: Set<String>) -> Bool {
    guard properties.contains(body[index].text) else { return false }
    let next = index + 1 < body.endIndex ? body[index + 1].text : ""
    let before = index > body.startIndex ? body[index - 1].text : ""
    if before == "." { return index - 1 > body.startIndex && body[index - 2].text == "self" }
    return next != ":" && !["let", "var", "func", "case", "for"].contains(before)
  }

  /// Only `NodeRole` compares roles. Other files of the mesh ask it what a role does.
  static func rolesAreDefinedOnce(_ files: [SourceFile]) -> [String] {
    files.filter { file in
      guard let room = file.place?.room, file.path.split(separator: "/").last != "NodeRole.swift" else { return false }
      return room == "Protocols/Bitchat" || room == serviceRoom
    }
    .flatMap { file -> [String] in
      let words = file.swift?.tokens ?? []
      return words.indices.dropLast(2).compactMap { index -> String? in
        let comparison = words[index + 1].text + words[index + 2].text
        guard words[index].text == "role", comparison == "==" || comparison == "!=" else { return nil }
        return "\(file.path):\(words[index].line): compares a role"
      }
    }
  }

  /// Only the translator names dialect S. Other files of the mesh node ask `MeshDialect` for a rule.
  static func dialectsAreTranslatedOnce(_ files: [SourceFile]) -> [String] {
    files.filter { file in
      file.place?.room == "Protocols/Bitchat" && file.place?.folder != "Translator"
    }
    .flatMap { file -> [String] in
      (file.swift?.tokens ?? []).filter { $0.text.lowercased().contains("seed") }
        .map { "\(file.path):\($0.line): names \($0.text)" }
    }
  }

  private static func ofMachinesAndEngine(_ files: [SourceFile]) -> [SourceFile] {
    files.filter { file in
      guard let place = file.place, file.swift != nil, place.room == "Protocols/Bitchat" else { return false }
      return place.folder == engineFolder || machines.contains(place.folder)
    }
  }
}

extension SwiftText {
  /// The bodies of `declarations(of:)`, each with the name of its outermost type: `A` for `extension A.B`.
  func bodies(of keywords: Set<String>) -> [(name: String, body: Body)] {
    declarations(of: keywords).map { (String($0.name.prefix { $0 != "." }), $0.body) }
  }

  /// The stored variables of each type that the file declares outside of other declarations.
  var storedProperties: [String: Set<String>] {
    var stored: [String: Set<String>] = [:]
    for (name, body) in bodies(of: ["struct", "class", "actor"]) {
      var depth = 0
      for index in body.indices {
        if body[index].text == "{" { depth += 1 }
        if body[index].text == "}" { depth -= 1 }
        guard depth == 0, body[index].text == "var", index + 1 < body.endIndex,
          index == body.startIndex || body[index - 1].text != "static", isStored(body[(index + 1)...])
        else { continue }
        stored[name, default: []].insert(body[index + 1].text)
      }
    }
    return stored
  }

  /// Whether the variable that begins with its name has storage: an initial value, observers, or no body.
  private func isStored(_ rest: ArraySlice<Token>) -> Bool {
    let declarations: Set = [
      "var", "let", "func", "init", "static", "private", "public", "struct", "enum", "mutating", "subscript",
    ]
    for (index, token) in zip(rest.indices, rest).dropFirst() {
      if token.text == "=" || declarations.contains(token.text) { return true }
      if token.text == "{" {
        return index + 1 < rest.endIndex && ["didSet", "willSet"].contains(rest[index + 1].text)
      }
    }
    return true
  }
}
